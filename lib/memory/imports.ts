import type { ImportedRecord, ImportRefusal, ImportState, ImportStore } from '../resources/imports.ts'
import type { PaymentRow } from '../resources/invoices.ts'
import { isNegative, subtract, withSignedDecimals } from '../resources/money.ts'
import { RECORD_KINDS, RECORD_TABLES } from '../resources/record-tables.ts'
import { ofBusiness, storeClient } from './clients.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of imports in memory. */
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
      // In the order of the kinds: clients keep their business, and payments take the decimals of their invoice.
      for (const kind of RECORD_KINDS) {
        for (const imported of added) if (imported.kind === kind) store(organization, imported)
      }
      return { outcome: 'imported', states }
    },
  }
}

// --- Comparing ---

function stateOf(organization: Organization, imported: ImportedRecord): ImportState {
  const stored = storedOf(organization, imported)
  if (stored === null) return 'added'
  const given = rowOf(organization, imported)
  const fields = [...Object.keys(RECORD_TABLES[imported.kind].columns), 'businessId']
  const isSame = fields.every((field) => Reflect.get(stored, field) === Reflect.get(given, field))
  return isSame ? 'known' : 'different'
}

/** The stored record of the same id; null if there is none. */
function storedOf(organization: Organization, { kind, record: { id } }: ImportedRecord): object | null {
  if (kind !== 'client') return organization[COLLECTIONS[kind]].get(id) ?? null
  const stored = organization.clients.get(id)
  return stored ? { ...stored, businessId: stored.business.id } : null
}

const COLLECTIONS = {
  business: 'businesses',
  lead: 'leads',
  proposal: 'proposals',
  invoice: 'invoices',
  payment: 'payments',
  project: 'projects',
} as const

/** The record as the organization keeps it: the amount of a payment has the decimals of its invoice. */
function rowOf({ invoices }: Organization, { kind, record }: ImportedRecord): object {
  const { place: _, ...row } = { place: null, ...record }
  if (kind !== 'payment') return row
  const decimals = invoices.get(record.invoiceId)?.minorUnits
  const exact = decimals === undefined ? null : withSignedDecimals(record.amount, decimals)
  return { ...row, amount: exact ?? record.amount }
}

/** True for a new payment of an invoice that the batch has too, and that is different. */
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

// --- Refusing ---

function refusalOf(
  organization: Organization,
  imported: ImportedRecord,
  added: readonly ImportedRecord[],
): ImportRefusal | null {
  switch (imported.kind) {
    case 'client':
    case 'lead': {
      const { businessId } = imported.record
      const isGiven = added.some(({ kind, record }) => kind === 'business' && record.id === businessId)
      if (!isGiven && !organization.businesses.has(businessId)) return 'no_business'
      const isTaken = imported.kind === 'client' && organization.clientsOfBusinesses.has(businessId)
      return isTaken ? 'business_taken' : null
    }
    case 'proposal':
      return isNumberTaken(organization.proposals, imported.record.number) ? 'number_taken' : null
    case 'invoice':
      return isNumberTaken(organization.invoices, imported.record.number) ? 'number_taken' : null
    case 'payment':
      return paymentRefusal(organization, imported.record, added)
    default:
      return null
  }
}

function paymentRefusal(
  { invoices, payments }: Organization,
  { invoiceId, amount }: PaymentRow,
  added: readonly ImportedRecord[],
): ImportRefusal | null {
  const given = added.find(({ kind, record }) => kind === 'invoice' && record.id === invoiceId)
  const invoice = invoices.get(invoiceId) ?? (given?.kind === 'invoice' ? given.record : undefined)
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

function isNumberTaken(records: ReadonlyMap<string, { readonly number: string }>, wanted: string): boolean {
  return [...records.values()].some(({ number }) => number === wanted)
}

// --- Writing ---

function store(organization: Organization, imported: ImportedRecord): void {
  if (imported.kind === 'client') {
    const { businessId, ...client } = imported.record
    storeClient(organization, { ...client, business: ofBusiness(organization, businessId) })
    return
  }
  const records: Map<string, unknown> = organization[COLLECTIONS[imported.kind]]
  records.set(imported.record.id, rowOf(organization, imported))
  if (!('place' in imported.record) || !imported.record.place) return
  const { series, count } = imported.record.place
  organization.numbers.set(series, Math.max(organization.numbers.get(series) ?? 0, count))
}
