import {
  type ImportedRecord,
  type ImportRefusal,
  type ImportState,
  type ImportStore,
  REFERENCES,
  UNIQUE_FIELDS,
} from '../resources/imports.ts'
import { isNegative, subtract, withSignedDecimals } from '../resources/money.ts'
import { RECORD_KINDS, type RecordRow } from '../resources/records.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the in-memory slice for imports. */
export function createImportStore(memory: Memory): ImportStore {
  return {
    async write(organizationId, records) {
      const organization = memory.organization(organizationId)
      const given = structuredClone(records)
      const own = given.map((imported) => stateOf(organization, imported))
      const states = own.map((state, index): ImportState => {
        const isLeftOut = state === 'added' && isOfDifferentInvoice(given, own, given[index])
        return isLeftOut ? 'different' : state
      })
      const added = given.filter((_, index) => states[index] === 'added')
      const refusals = given.flatMap((imported, index) => {
        const reason = states[index] === 'added' ? refusalOf(organization, imported, added) : null
        return reason === null ? [] : [{ index, reason }]
      })
      if (refusals.length > 0) return { outcome: 'refused', refusals }
      // Store the kinds in order, since payments need their invoice's number of decimal places.
      for (const kind of RECORD_KINDS) {
        for (const imported of added) if (imported.kind === kind) store(organization, imported)
      }
      return { outcome: 'imported', states }
    },
  }
}

function stateOf({ records }: Organization, imported: ImportedRecord): ImportState {
  const stored = records[imported.kind].get(imported.record.id)
  if (stored === undefined) return 'added'
  const given = rowOf(records, imported)
  const fields = Object.keys({ ...stored, ...given })
  const isSame = fields.every(
    (field) => (Reflect.get(stored, field) ?? null) === (Reflect.get(given, field) ?? null),
  )
  return isSame ? 'known' : 'different'
}

type Records = Organization['records']

/** Returns a record as stored. A payment's amount gets as many decimal places as its invoice has. */
function rowOf({ invoice }: Records, { kind, record }: ImportedRecord): object {
  const { place: _, ...row } = { place: null, ...record }
  if (kind !== 'payment') return row
  const decimals = invoice.get(record.invoiceId)?.minorUnits
  const exact = decimals === undefined ? null : withSignedDecimals(record.amount, decimals)
  return { ...row, amount: exact ?? record.amount }
}

/** Returns `true` for a payment if the invoice is in the batch but differs from the stored one. */
function isOfDifferentInvoice(
  given: readonly ImportedRecord[],
  states: readonly ImportState[],
  imported: ImportedRecord | undefined,
): boolean {
  if (imported?.kind !== 'payment') return false
  const { invoiceId } = imported.record
  const index = given.findIndex(({ kind, record }) => kind === 'invoice' && record.id === invoiceId)
  return states[index] === 'different'
}

function refusalOf(
  { records }: Organization,
  imported: ImportedRecord,
  added: readonly ImportedRecord[],
): ImportRefusal | null {
  const { kind, record } = imported
  const fieldOf = (row: object, field: string): string => Reflect.get(row, field)
  const missing = REFERENCES.find((reference) => {
    const id = fieldOf(record, reference.field)
    const isGiven = added.some((other) => other.kind === reference.to && other.record.id === id)
    return reference.kind === kind && !isGiven && !records[reference.to].has(id)
  })
  const taken = UNIQUE_FIELDS.find(({ kind: owner, field }) => {
    const others: Iterable<object> = records[kind].values()
    return owner === kind && [...others].some((other) => fieldOf(other, field) === fieldOf(record, field))
  })
  const found = missing ?? taken
  if (found) return found.refusal
  return kind === 'payment' ? paymentRefusal(records, record, added) : null
}

function paymentRefusal(
  { invoice: invoices, payment: payments }: Records,
  { invoiceId, amount }: RecordRow<'payment'>,
  added: readonly ImportedRecord[],
): ImportRefusal | null {
  const given = added.flatMap((imported) => (imported.kind === 'invoice' ? [imported.record] : []))
  const invoice = invoices.get(invoiceId) ?? given.find(({ id }) => id === invoiceId)
  if (!invoice) return 'no_invoice'
  const decimals = invoice.minorUnits
  if (withSignedDecimals(amount, decimals) === null) return 'too_fine'
  const own = added.flatMap((imported) => (imported.kind === 'payment' ? [imported.record] : []))
  const left = [...payments.values(), ...own]
    .filter(
      (payment) => payment.invoiceId === invoiceId && !payment.reversedBy && !isNegative(payment.amount),
    )
    .reduce<string | null>((rest, payment) => {
      const exact = withSignedDecimals(payment.amount, decimals)
      return rest === null || exact === null ? rest : subtract(rest, exact, decimals)
    }, invoice.amountPaid)
  return left === null ? 'overpaid' : null
}

function store({ records, numbers }: Organization, imported: ImportedRecord): void {
  const collection: Map<string, object> = records[imported.kind]
  collection.set(imported.record.id, rowOf(records, imported))
  if (!('place' in imported.record) || !imported.record.place) return
  const { series, count } = imported.record.place
  numbers.set(series, Math.max(numbers.get(series) ?? 0, count))
}
