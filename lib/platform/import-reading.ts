import * as v from 'valibot'
import { BusinessApiError, INVALID_INPUT } from '../base/errors.ts'
import * as field from '../base/fields.ts'
import { oneOf, read, withoutUndefined } from '../base/host-input.ts'
import { visible } from '../base/visible-text.ts'
import type { Business } from '../resources/businesses.ts'
import { formatNumber } from '../resources/document-numbers.ts'
import type { ImportedRecord, SeriesPlace } from '../resources/imports.ts'
import type { Payment } from '../resources/invoices.ts'
import { scoreBand } from '../resources/leads.ts'
import { isAsFineAs, isZero, subtract, withDecimals } from '../resources/money.ts'
import { RECORD_KINDS, type RecordKind } from '../resources/records.ts'
import type { CallTools } from './calls.ts'
import { IMPORT_FIELDS, PartFields, SignatureFields } from './import-records.ts'

// Validates records to import.

/** Fields that are derived or set by the store. Ignored, since reads and exports include them. */
const DERIVED_FIELDS: readonly string[] = ['scoreBand', 'amountDue', 'updatedAt']

// --- Reading ---

/** A validated record along with its rows, for example a client and its business. */
export interface GivenRecord {
  /** What to call the record in messages, for example `record 17 (client cli_42)`. */
  readonly name: string
  readonly kind: RecordKind
  readonly id: string
  readonly rows: readonly ImportedRecord[]
}

const EnvelopeSchema = v.object({
  kind: oneOf(RECORD_KINDS),
  // We can't use valibot's record because it drops a field named `constructor`.
  record: v.custom<object>((given) => typeof given === 'object' && given !== null, 'must be an object'),
})

/**
 * Validates a record to import.
 *
 * @param place the position to use in messages, for example `record 17`
 * @throws `BusinessApiError` with code `invalid_input`. The message has the position, fields and violated rules
 */
export function readGivenRecord(
  given: unknown,
  place: string,
  { minorUnits }: Pick<CallTools, 'minorUnits'>,
): GivenRecord {
  const { kind, record } = read(EnvelopeSchema, { ...Object(given) }, `Cannot import ${place}`)
  const { id } = record as { readonly id?: unknown }
  const name =
    typeof id === 'string' && field.isStorable(id)
      ? `${place} (${kind} ${shown(id, ID_MAX)})`
      : `${place} (${kind})`
  const fault = (text: string, fields: readonly string[]): BusinessApiError =>
    new BusinessApiError(INVALID_INPUT, `Cannot import ${name} because ${text}`, { fields })
  const readFields: ReadFields = (schema, fields, part = '') => {
    const present = Object.entries(withoutUndefined(Object(fields))).filter(
      ([key]) => Object.hasOwn(schema.entries, key) || !DERIVED_FIELDS.includes(key),
    )
    const unknown = present.map(([key]) => key).filter((key) => !Object.hasOwn(schema.entries, key))
    // The file is untrusted, so only include the first few names, truncated.
    const names = unknown.slice(0, 5).map((key) => shown(key, NAME_MAX))
    if (names.length > 0) throw fault(`it has unknown fields: ${names.join(', ')}`, names)
    return read(schema, Object.fromEntries(present), `Cannot import ${name}${part}`)
  }
  const reading = { readFields, fault, minorUnits }
  const rows = READERS[kind]?.(record, reading) ?? [readPlain(kind, record, reading)]
  return { name, kind, id: String(id), rows }
}

/** Truncates an untrusted string. */
function shown(text: string, max: number): string {
  return visible([...text.slice(0, 2 * max)].slice(0, max).join(''))
}

const NAME_MAX = 200
const ID_MAX = 64

type ReadFields = <Entries extends v.ObjectEntries>(
  schema: v.ObjectSchema<Entries, undefined>,
  fields: unknown,
  part?: string,
) => v.InferOutput<v.ObjectSchema<Entries, undefined>>

interface Reading {
  readonly readFields: ReadFields
  readonly fault: (text: string, fields: readonly string[]) => BusinessApiError
  readonly minorUnits: (currency: string) => number
}

type Reader = (record: object, reading: Reading) => readonly ImportedRecord[]

/** Validates a record that has the same fields in the store. */
function readPlain(kind: RecordKind, record: object, { readFields }: Reading): ImportedRecord {
  const schema: v.ObjectSchema<v.ObjectEntries, undefined> = IMPORT_FIELDS[kind]
  return { kind, record: readFields(schema, record) } as object as ImportedRecord
}

/** Readers for the kinds that are stored differently. */
const READERS: Readonly<Partial<Record<RecordKind, Reader>>> = {
  client: readClient,
  lead(record, { readFields }) {
    const { stage, leadScore, businessId, ...rest } = readFields(IMPORT_FIELDS.lead, record)
    const { id, expectedValue, createdAt } = rest
    const band = scoreBand(leadScore)
    const lead = { id, stage, leadScore, scoreBand: band, expectedValue, createdAt, businessId }
    return [{ kind: 'lead', record: lead }]
  },
  proposal: readProposal,
  invoice: readInvoice,
}

function readClient(given: object, { readFields, fault }: Reading): readonly ImportedRecord[] {
  const { business, businessId, ...client } = readFields(IMPORT_FIELDS.client, given)
  if (business === undefined) {
    if (businessId !== undefined) return [{ kind: 'client', record: { ...client, businessId } }]
    throw fault('it must have the business, or the businessId', ['business', 'businessId'])
  }
  const own: Business = readFields(IMPORT_FIELDS.business, business, ', its business,')
  if (businessId !== undefined && businessId !== own.id) {
    throw fault('its businessId must be the id of its business', ['businessId'])
  }
  return [
    { kind: 'business', record: own },
    { kind: 'client', record: { ...client, businessId: own.id } },
  ]
}

const UNSIGNED = { signedBy: null, signedAt: null }

function readProposal(given: object, { readFields, fault, minorUnits }: Reading): readonly ImportedRecord[] {
  const { signature: signed, ...proposal } = readFields(IMPORT_FIELDS.proposal, given)
  const decimals = proposal.minorUnits ?? minorUnits(proposal.currency)
  if (!isAsFineAs(proposal.total, decimals) || !isAsFineAs(proposal.monthlyTotal, decimals)) {
    throw fault(`its price can have at most ${decimals} decimals for ${proposal.currency}`, [
      'total',
      'monthlyTotal',
    ])
  }
  if (signed !== null && proposal.status !== 'accepted') {
    throw fault('only an accepted proposal has a signature', ['signature'])
  }
  const signature = signed ? readFields(SignatureFields, signed, ', its signature,') : UNSIGNED
  const place = placeOf('PROP', proposal.number)
  return [{ kind: 'proposal', record: { ...proposal, ...signature, minorUnits: decimals, place } }]
}

function readInvoice(given: object, { readFields, fault, minorUnits }: Reading): readonly ImportedRecord[] {
  const { payments: list, amountPaid: paidText, ...invoice } = readFields(IMPORT_FIELDS.invoice, given)
  const decimals = invoice.minorUnits ?? minorUnits(invoice.currency)
  const money = (text: string, name: string): string => {
    const exact = withDecimals(text, decimals)
    if (exact === null)
      throw fault(`its ${name} can have at most ${decimals} decimals for ${invoice.currency}`, [name])
    return exact
  }
  const payments = list?.map((payment, index): Payment => {
    const fields = readFields(PartFields, payment, `, its payment ${index + 1},`)
    return { ...fields, amount: money(fields.amount, 'payments') }
  })
  const total = money(invoice.total, 'total')
  const sum = payments && sumOf(payments, decimals)
  const amountPaid = money(paidText ?? sum ?? '0', 'amountPaid')
  if (sum !== undefined && sum !== amountPaid) {
    throw fault('its amountPaid must be the sum of its payments', ['amountPaid', 'payments'])
  }
  const amountDue = subtract(total, amountPaid, decimals)
  if (amountDue === null) throw fault('its amountPaid exceeds its total', ['amountPaid'])
  const misfit = misfitOf(invoice.status, isZero(amountPaid), isZero(amountDue))
  if (misfit) throw fault(`its status is ${invoice.status}, and ${misfit}`, ['status', 'amountPaid'])
  if (invoice.dueDate < invoice.issueDate) {
    throw fault('its dueDate must not be before its issueDate', ['dueDate'])
  }
  const { id, number, status, currency, issueDate, dueDate } = invoice
  const record = { id, number, status, currency, issueDate, dueDate, total, amountPaid, amountDue }
  const place = placeOf('INV', number)
  return [
    { kind: 'invoice', record: { ...record, minorUnits: decimals, place } },
    ...(payments ?? []).map((payment) => ({
      kind: 'payment' as const,
      record: { ...payment, invoiceId: id },
    })),
  ]
}

function sumOf(payments: readonly Payment[], decimals: number): string {
  const sum = payments.reduce((all, payment) => all + BigInt(payment.amount.replace('.', '')), 0n)
  const digits = String(sum).padStart(decimals + 1, '0')
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Returns the rule that an invoice's amounts violate, or `null` if they match its status. */
function misfitOf(status: string, isUnpaid: boolean, isSettled: boolean): string | null {
  if (status === 'paid') return isSettled ? null : 'something is due'
  if (status === 'partially_paid') {
    if (isUnpaid) return 'nothing is paid'
    return isSettled ? 'nothing is due' : null
  }
  if (status === 'overdue') return isSettled ? 'nothing is due' : null
  return isUnpaid ? null : 'something is paid'
}

/** Returns a number's position in the library's own series, or `null` if it has a different format. */
function placeOf(kind: 'INV' | 'PROP', number: string): SeriesPlace | null {
  const [, series = '', digits = ''] = /^([A-Z]+-\d{4})-(\d{4,15})$/.exec(number) ?? []
  const count = Number(digits)
  return series.startsWith(`${kind}-`) && formatNumber({ series }, count) === number
    ? { series, count }
    : null
}
