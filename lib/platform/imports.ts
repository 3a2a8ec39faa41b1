import * as v from 'valibot'
import { ALREADY_EXISTS, BusinessApiError, INVALID_INPUT, NOT_FOUND } from '../base/errors.ts'
import * as field from '../base/fields.ts'
import { MomentSchema, OrganizationIdSchema, read, whole, withoutUndefined } from '../base/host-input.ts'
import type { IdKind } from '../base/ids.ts'
import type { RecordStore } from '../business-store.ts'
import type { Business } from '../resources/businesses.ts'
import { formatNumber } from '../resources/document-numbers.ts'
import {
  IMPORT_KINDS,
  type ImportedRecord,
  type ImportKind,
  type ImportRefusal,
  type ImportState,
  type SeriesPlace,
} from '../resources/imports.ts'
import type { Payment } from '../resources/invoices.ts'
import { scoreBand } from '../resources/leads.ts'
import { isAsFineAs, isZero, subtract, withDecimals } from '../resources/money.ts'
import type { CallTools } from './calls.ts'
import { type ClientStatus, STATUSES } from './clients.ts'
import {
  AmountSchema,
  amount,
  CurrencySchema,
  MoneySchema,
  NumberSchema,
  SignedAmountSchema,
  TitleSchema,
} from './inputs.ts'
import { type LeadStage, STAGES } from './leads.ts'
import { BILLING_TYPES, type BillingType } from './projects.ts'

// Longer than 250 lines: the fields and the rules of six kinds of records stand side by side.

// --- Types ---

type Moment = Date | string

/** A business with the host's own id, `biz_` and 1 to 59 letters, digits, hyphens and underscores. */
export interface ImportedBusiness {
  readonly id: string
  /** 1 to 150 characters. */
  readonly name: string
  readonly category?: string | null | undefined
  readonly city?: string | null | undefined
  readonly email?: string | null | undefined
  readonly phone?: string | null | undefined
}

/** A client with the host's own id, `cli_…`, and either the business or the id of a business that is imported before. */
export interface ImportedClient {
  readonly id: string
  readonly status: ClientStatus
  /** Default 0. */
  readonly totalRevenue?: number | undefined
  /** Default 0. */
  readonly monthlyRevenue?: number | undefined
  readonly convertedAt: Moment
  readonly business?: ImportedBusiness | undefined
  readonly businessId?: string | undefined
}

/** A lead with the host's own id, `lead_…`. The band follows from the score. */
export interface ImportedLead {
  readonly id: string
  readonly businessId: string
  readonly stage: LeadStage
  readonly leadScore?: number | null | undefined
  readonly expectedValue?: number | null | undefined
  readonly createdAt: Moment
}

/** A proposal with the host's own id, `prop_…`, and number. */
export interface ImportedProposal {
  readonly id: string
  readonly number: string
  readonly title: string
  readonly status: (typeof PROPOSAL_STATUSES)[number]
  /** Default 1. */
  readonly version?: number | undefined
  readonly total: number
  /** Default 0. */
  readonly monthlyTotal?: number | undefined
  readonly currency: string
  /** Decimals of the currency, 0 to 4. Default the decimals of ISO 4217, or of `currencyDecimals`. */
  readonly minorUnits?: number | undefined
  /** Of an accepted proposal only. Default null. */
  readonly signature?: { readonly signedBy: string; readonly signedAt: Moment } | null | undefined
}

/** An invoice with the host's own id, `inv_…`, and number. Money is in decimal strings. */
export interface ImportedInvoice {
  readonly id: string
  readonly number: string
  /** Fits the money: `paid` with nothing due, `partially_paid` and `overdue` with something due, the others with nothing paid. */
  readonly status: (typeof INVOICE_STATUSES)[number]
  readonly currency: string
  readonly issueDate: Moment
  readonly dueDate: Moment
  readonly total: string
  /** Default the sum of the payments. */
  readonly amountPaid?: string | undefined
  /** Their sum is `amountPaid`. Default: the payments are unknown, or are records of their own. */
  readonly payments?: readonly Omit<ImportedPayment, 'invoiceId'>[] | undefined
  /** Decimals of the currency, 0 to 4. Default the decimals of ISO 4217, or of `currencyDecimals`. */
  readonly minorUnits?: number | undefined
}

/**
 * A payment with the host's own id, `pay_…`, of an invoice that is imported before. A payment is part of the `amountPaid` of the
 * invoice, and changes no invoice.
 */
export interface ImportedPayment {
  readonly id: string
  readonly invoiceId: string
  readonly amount: string
  readonly receivedAt: Moment
}

/** A project with the host's own id, `proj_…`. */
export interface ImportedProject {
  readonly id: string
  readonly name: string
  readonly status: (typeof PROJECT_STATUSES)[number]
  readonly billingType: BillingType
  readonly value: number
}

/** A record to be imported. The fields that follow from others, `scoreBand` and `amountDue`, are ignored. */
export type ImportRecord =
  | { readonly kind: 'business'; readonly record: ImportedBusiness }
  | { readonly kind: 'client'; readonly record: ImportedClient }
  | { readonly kind: 'lead'; readonly record: ImportedLead }
  | { readonly kind: 'proposal'; readonly record: ImportedProposal }
  | { readonly kind: 'invoice'; readonly record: ImportedInvoice }
  | { readonly kind: 'payment'; readonly record: ImportedPayment }
  | { readonly kind: 'project'; readonly record: ImportedProject }

/** The result of an import. */
export interface ImportReport {
  /** Records that the import has written. */
  readonly added: number
  /** Records that the organization had before, with the same values. */
  readonly known: number
  /** Records of an id that the organization had before, with other values, which stay. */
  readonly different: readonly {
    /** The place among the given records, from 0. */
    readonly index: number
    readonly kind: ImportKind
    readonly id: string
  }[]
}

/** Imports records that exist already: see `Platform.import`. */
export type ImportCall = (organizationId: string, records: readonly ImportRecord[]) => Promise<ImportReport>

/** Greatest number of records of a call, so that no statement takes long. */
export const IMPORT_MAX = 500
/** Greatest number of rows of a call: a client may bring its business, and an invoice its payments. */
export const IMPORTED_ROWS_MAX = 2000

// --- Inputs ---

const PROPOSAL_STATUSES = ['draft', 'sent', 'accepted', 'rejected'] as const
const INVOICE_STATUSES = ['draft', 'issued', 'partially_paid', 'paid', 'overdue', 'void'] as const
const PROJECT_STATUSES = ['active', 'on_hold', 'completed', 'cancelled'] as const

const moneyRequirement =
  'must be a decimal string such as "1250.000", with at most 15 digits before the point'
/** Money that may be zero. */
const WholeMoneySchema = v.pipe(
  v.string(moneyRequirement),
  v.check((text) => /^\d{1,15}(\.\d{1,20})?$/.test(text), moneyRequirement),
)

/** An id that lists of the API can continue after. */
function ownId(kind: IdKind) {
  const requirement = `must be ${kind}_ and 1 to 59 letters, digits, hyphens and underscores`
  const pattern = new RegExp(`^${kind}_[A-Za-z0-9_-]{1,59}$`)
  return v.pipe(
    v.string(requirement),
    v.check((id) => pattern.test(id), requirement),
  )
}

function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return v.picklist(words, `must be one of ${words.join(', ')}`)
}

function orNull<Schema extends v.GenericSchema>(schema: Schema) {
  return v.optional(v.nullable(schema), null)
}

const BusinessFields = v.object({
  id: ownId('biz'),
  name: field.text(1, 150),
  category: orNull(field.text(0, 80)),
  city: orNull(field.text(0, 80)),
  email: orNull(field.email()),
  phone: orNull(field.text(0, 30)),
})
const ClientFields = v.object({
  id: ownId('cli'),
  status: oneOf(STATUSES),
  totalRevenue: v.optional(SignedAmountSchema, 0),
  monthlyRevenue: v.optional(SignedAmountSchema, 0),
  convertedAt: MomentSchema,
  business: v.exactOptional(v.record(v.string(), v.unknown())),
  businessId: v.exactOptional(ownId('biz')),
})
const LeadFields = v.object({
  id: ownId('lead'),
  stage: oneOf(STAGES),
  leadScore: orNull(amount(0, 100)),
  expectedValue: orNull(AmountSchema),
  createdAt: MomentSchema,
  businessId: ownId('biz'),
})
const SignatureFields = v.object({ signedBy: TitleSchema, signedAt: MomentSchema })
const MinorUnitsSchema = v.exactOptional(whole(0, 4))
const ProposalFields = v.object({
  id: ownId('prop'),
  number: NumberSchema,
  title: TitleSchema,
  status: oneOf(PROPOSAL_STATUSES),
  version: v.optional(whole(1, 2_147_483_647), 1),
  total: AmountSchema,
  monthlyTotal: v.optional(AmountSchema, 0),
  currency: CurrencySchema,
  minorUnits: MinorUnitsSchema,
  signature: orNull(v.record(v.string(), v.unknown())),
})
const PartFields = v.object({ id: ownId('pay'), amount: MoneySchema, receivedAt: MomentSchema })
const PaymentFields = v.object({ ...PartFields.entries, invoiceId: ownId('inv') })
const InvoiceFields = v.object({
  id: ownId('inv'),
  number: NumberSchema,
  status: oneOf(INVOICE_STATUSES),
  currency: CurrencySchema,
  issueDate: MomentSchema,
  dueDate: MomentSchema,
  total: WholeMoneySchema,
  amountPaid: v.exactOptional(WholeMoneySchema),
  minorUnits: MinorUnitsSchema,
  payments: v.exactOptional(
    v.pipe(v.array(v.unknown(), 'must be an array'), v.maxLength(1000, 'must be at most 1000 payments')),
  ),
})
const ProjectFields = v.object({
  id: ownId('proj'),
  name: TitleSchema,
  status: oneOf(PROJECT_STATUSES),
  billingType: oneOf(BILLING_TYPES),
  value: AmountSchema,
})

/** Fields that follow from others, and the time of the latest change: ignored, because reads and exports show them. */
const DERIVED_FIELDS: readonly string[] = ['scoreBand', 'amountDue', 'updatedAt']

// --- Reading ---

/** A checked record with the rows of the store: a client may bring its business. */
export interface GivenRecord {
  /** Names the record in messages: `record 17 (client cli_42)`. */
  readonly name: string
  readonly kind: ImportKind
  readonly id: string
  readonly rows: readonly ImportedRecord[]
}

const EnvelopeSchema = v.object({
  kind: oneOf(IMPORT_KINDS),
  record: v.record(v.string(), v.unknown(), 'must be an object'),
})

/**
 * Checks a record of an import.
 *
 * @param place of the record, for messages: `record 17`
 * @throws `BusinessApiError` with code `invalid_input`; the message names the place, the fields and the rules
 */
export function readGivenRecord(
  given: unknown,
  place: string,
  { minorUnits }: Pick<CallTools, 'minorUnits'>,
): GivenRecord {
  const { kind, record } = read(EnvelopeSchema, Object(given), `Cannot import ${place}`)
  const name =
    typeof record.id === 'string' && field.isStorable(record.id)
      ? nameOf(place, kind, record.id)
      : `${place} (${kind})`
  const fault = (text: string, fields: readonly string[]): BusinessApiError =>
    new BusinessApiError(INVALID_INPUT, `Cannot import ${name} because ${text}`, { fields })
  const readFields: ReadFields = (schema, fields, part = '') => {
    const present = withoutUndefined(Object(fields))
    const unknown = Object.keys(present).filter(
      (key) => !Object.hasOwn(schema.entries, key) && !DERIVED_FIELDS.includes(key),
    )
    if (unknown.length > 0) throw fault(`it has unknown fields: ${unknown.slice(0, 5).join(', ')}`, unknown)
    return read(schema, present, `Cannot import ${name}${part}`)
  }
  const rows = READERS[kind](record, { readFields, fault, minorUnits })
  return { name, kind, id: String(record.id), rows }
}

function nameOf(place: string, kind: ImportKind, id: string): string {
  return `${place} (${kind} ${id.slice(0, 64)})`
}

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

const READERS: Readonly<Record<ImportKind, Reader>> = {
  business: (record, { readFields }) => [{ kind: 'business', record: readFields(BusinessFields, record) }],
  client: readClient,
  lead(record, { readFields }) {
    const { stage, leadScore, businessId, ...rest } = readFields(LeadFields, record)
    const { id, expectedValue, createdAt } = rest
    const band = scoreBand(leadScore)
    const lead = { id, stage, leadScore, scoreBand: band, expectedValue, createdAt, businessId }
    return [{ kind: 'lead', record: lead }]
  },
  proposal: readProposal,
  invoice: readInvoice,
  payment: (record, { readFields }) => [{ kind: 'payment', record: readFields(PaymentFields, record) }],
  project: (record, { readFields }) => [{ kind: 'project', record: readFields(ProjectFields, record) }],
}

function readClient(given: object, { readFields, fault }: Reading): readonly ImportedRecord[] {
  const { business, businessId, ...client } = readFields(ClientFields, given)
  if (business === undefined) {
    if (businessId !== undefined) return [{ kind: 'client', record: { ...client, businessId } }]
    throw fault('it must have the business, or the businessId', ['business', 'businessId'])
  }
  const own: Business = readFields(BusinessFields, business, ', its business,')
  if (businessId !== undefined && businessId !== own.id) {
    throw fault('its businessId must be the id of its business', ['businessId'])
  }
  return [
    { kind: 'business', record: own },
    { kind: 'client', record: { ...client, businessId: own.id } },
  ]
}

function readProposal(given: object, { readFields, fault, minorUnits }: Reading): readonly ImportedRecord[] {
  const { signature: signed, ...proposal } = readFields(ProposalFields, given)
  const decimals = proposal.minorUnits ?? minorUnits(proposal.currency)
  if (!isAsFineAs(proposal.total, decimals) || !isAsFineAs(proposal.monthlyTotal, decimals)) {
    throw fault('its price must be no finer than its currency', ['total', 'monthlyTotal'])
  }
  if (signed !== null && proposal.status !== 'accepted') {
    throw fault('only an accepted proposal has a signature', ['signature'])
  }
  const signature = signed && readFields(SignatureFields, signed, ', its signature,')
  const place = placeOf('PROP', proposal.number)
  return [{ kind: 'proposal', record: { ...proposal, signature, minorUnits: decimals, place } }]
}

function readInvoice(given: object, { readFields, fault, minorUnits }: Reading): readonly ImportedRecord[] {
  const { payments: list, amountPaid: paidText, ...invoice } = readFields(InvoiceFields, given)
  const decimals = invoice.minorUnits ?? minorUnits(invoice.currency)
  const money = (text: string, name: string): string => {
    const exact = withDecimals(text, decimals)
    if (exact === null) throw fault(`its ${name} must be no finer than its currency`, [name])
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
  if (amountDue === null) throw fault('its amountPaid must not be more than its total', ['amountPaid'])
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

/** Tells the rule that the money of an invoice breaks; null if the money fits the status. */
function misfitOf(status: string, isUnpaid: boolean, isSettled: boolean): string | null {
  if (status === 'paid') return isSettled ? null : 'something is due'
  if (status === 'partially_paid') {
    if (isUnpaid) return 'nothing is paid'
    return isSettled ? 'nothing is due' : null
  }
  if (status === 'overdue') return isSettled ? 'nothing is due' : null
  return isUnpaid ? null : 'something is paid'
}

/** Finds the place of a number in a series of the library; null for a number of another form. */
function placeOf(kind: 'INV' | 'PROP', number: string): SeriesPlace | null {
  const [, series = '', digits = ''] = /^([A-Z]+-\d{4})-(\d{4,15})$/.exec(number) ?? []
  const count = Number(digits)
  return series.startsWith(`${kind}-`) && formatNumber({ series }, count) === number
    ? { series, count }
    : null
}

// --- Writing ---

/**
 * Writes checked records: all or nothing.
 *
 * @throws `BusinessApiError` with code `not_found` for an unknown business or invoice, `already_exists` for a number or a business that
 *   another record has, `invalid_input` for a payment that does not fit its invoice
 */
export async function importRecords(
  { imports }: Pick<RecordStore, 'imports'>,
  organizationId: string,
  given: readonly GivenRecord[],
): Promise<ImportReport> {
  const rows = given.flatMap((record) => record.rows.map((row) => ({ record, row })))
  // The first row of each id goes to the store; a further row of the id is compared with the first.
  const firsts = new Map<string, number>()
  const unique = rows.filter(({ row }) => {
    const isFirst = !firsts.has(keyOf(row))
    if (isFirst) firsts.set(keyOf(row), firsts.size)
    return isFirst
  })
  refuseContradictions(unique)
  const outcome = await imports.write(
    organizationId,
    unique.map(({ row }) => row),
  )
  if (outcome.outcome === 'refused') {
    throw refusalOf(
      outcome.refusals.map(({ index, reason }) => ({ name: unique[index]?.record.name, reason })),
    )
  }
  const stateOf = (row: ImportedRecord): ImportState => {
    const first = firsts.get(keyOf(row)) ?? 0
    const state = outcome.states[first] ?? 'different'
    if (unique[first]?.row === row) return state
    const isSame = JSON.stringify(unique[first]?.row) === JSON.stringify(row)
    return isSame && state !== 'different' ? 'known' : 'different'
  }
  return reportOf(given, stateOf)
}

function keyOf({ kind, record }: ImportedRecord): string {
  return `${kind} ${record.id}`
}

function reportOf(
  given: readonly GivenRecord[],
  stateOf: (row: ImportedRecord) => ImportState,
): ImportReport {
  const states = given.map(({ rows }) => {
    const all = rows.map(stateOf)
    if (all.includes('different')) return 'different'
    return all.includes('added') ? 'added' : 'known'
  })
  const count = (wanted: ImportState): number => states.filter((state) => state === wanted).length
  const different = given.flatMap(({ kind, id }, index) => {
    return states[index] === 'different' ? [{ index, kind, id }] : []
  })
  return { added: count('added'), known: count('known'), different }
}

interface NamedRow {
  readonly record: GivenRecord
  readonly row: ImportedRecord
}

/** Refuses two records of the batch with the same number or the same business. */
function refuseContradictions(rows: readonly NamedRow[]): void {
  const owners = new Map<string, GivenRecord>()
  for (const { record, row } of rows) {
    for (const [key, noun] of claimsOf(row)) {
      const owner = owners.get(key)
      if (owner) {
        const text = `${owner.name} has the same ${noun}`
        throw new BusinessApiError(ALREADY_EXISTS, `Cannot import ${record.name} because ${text}`)
      }
      owners.set(key, record)
    }
  }
}

/** The values that only one record of an organization can have, with their names. */
function claimsOf({ kind, record }: ImportedRecord): readonly (readonly [key: string, noun: string])[] {
  switch (kind) {
    case 'client':
      return [[`client ${record.businessId}`, 'business']]
    case 'proposal':
      return [[`proposal ${record.number}`, 'number']]
    case 'invoice':
      return [[`invoice ${record.number}`, 'number']]
    default:
      return []
  }
}

const REFUSALS: Readonly<Record<ImportRefusal, readonly [code: BusinessApiError['code'], text: string]>> = {
  no_business: [NOT_FOUND, 'the organization has no business of its businessId: import the business first'],
  business_taken: [ALREADY_EXISTS, 'its business has become another client'],
  number_taken: [ALREADY_EXISTS, 'its number is taken by another record'],
  no_invoice: [NOT_FOUND, 'the organization has no invoice of its invoiceId: import the invoice first'],
  too_fine: [INVALID_INPUT, 'its amount must be no finer than the currency of its invoice'],
  overpaid: [
    INVALID_INPUT,
    'the payments of its invoice must not be more than the amountPaid of the invoice',
  ],
}

/** Refusals in a message at most. */
const REFUSALS_SHOWN = 5

function refusalOf(
  refusals: readonly { readonly name: string | undefined; readonly reason: ImportRefusal }[],
): BusinessApiError {
  const [code] = REFUSALS[refusals[0]?.reason ?? 'no_business']
  const shown = refusals.slice(0, REFUSALS_SHOWN)
  const texts = shown.map(({ name, reason }) => `Cannot import ${name} because ${REFUSALS[reason][1]}`)
  const rest = refusals.length - shown.length
  return new BusinessApiError(code, [...texts, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; '))
}

// --- Call ---

const CALL_ACTION = 'Cannot import the records'
const listRequirement = `must be an array of at most ${IMPORT_MAX} records`
const CallSchema = v.object({
  organizationId: OrganizationIdSchema,
  records: v.pipe(v.array(v.unknown(), listRequirement), v.maxLength(IMPORT_MAX, listRequirement)),
})

/** Builds the call that imports records. */
export function createImportCall(store: Pick<RecordStore, 'imports'>, tools: CallTools): ImportCall {
  return async (organizationId, records) => {
    const call = read(CallSchema, { organizationId, records }, CALL_ACTION)
    const given = call.records.map((record, index) => readGivenRecord(record, `record ${index}`, tools))
    if (given.flatMap(({ rows }) => rows).length > IMPORTED_ROWS_MAX) {
      const text = `they must have at most ${IMPORTED_ROWS_MAX - IMPORT_MAX} payments`
      throw new BusinessApiError(INVALID_INPUT, `${CALL_ACTION} because ${text}`, { fields: ['records'] })
    }
    if (given.length === 0) return { added: 0, known: 0, different: [] }
    return importRecords(store, call.organizationId, given)
  }
}
