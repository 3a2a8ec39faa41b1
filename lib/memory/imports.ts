import { isDeepStrictEqual } from 'node:util'
import type { Business } from '../resources/businesses.ts'
import type { Client } from '../resources/clients.ts'
import {
  IMPORT_KINDS,
  type ImportedRecord,
  type ImportRefusal,
  type ImportState,
  type ImportStore,
} from '../resources/imports.ts'
import type { Payment } from '../resources/invoices.ts'
import { decimalsOf, subtract, withDecimals } from '../resources/money.ts'
import { storeClient } from './clients.ts'
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
      for (const kind of IMPORT_KINDS) {
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
  return isDeepStrictEqual(stored, valuesOf(imported)) ? 'known' : 'different'
}

/** The values of an imported record that are compared. */
function valuesOf(imported: ImportedRecord): object {
  switch (imported.kind) {
    case 'proposal': {
      const { minorUnits: _, place: __, ...values } = imported.record
      return values
    }
    case 'invoice': {
      const { minorUnits: _, place: __, ...values } = imported.record
      return values
    }
    default:
      return imported.record
  }
}

/** The stored record of the same id, with the same fields; null if there is none. */
function storedOf(organization: Organization, imported: ImportedRecord): object | null {
  const { id } = imported.record
  switch (imported.kind) {
    case 'business':
      return organization.businesses.get(id) ?? null
    case 'client': {
      const stored = organization.clients.get(id)
      if (!stored) return null
      const { business, ...client } = stored
      return { ...client, businessId: business.id }
    }
    case 'lead': {
      const stored = organization.leads.get(id)
      return stored ? { ...stored.lead, businessId: stored.businessId } : null
    }
    case 'proposal': {
      const stored = organization.proposals.get(id)
      if (!stored) return null
      const { decimals: _, ...proposal } = stored
      return { ...proposal, signature: organization.signatures.get(id) ?? null }
    }
    case 'invoice':
      return organization.invoices.get(id) ?? null
    case 'payment': {
      const stored = organization.payments.get(id)
      if (!stored) return null
      const { amount } = imported.record
      return {
        ...stored,
        amount: withDecimals(amount, decimalsOf(stored.amount)) === stored.amount ? amount : stored.amount,
      }
    }
    case 'project':
      return organization.projects.get(id) ?? null
  }
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
  { invoiceId, amount }: Payment & { readonly invoiceId: string },
  added: readonly ImportedRecord[],
): ImportRefusal | null {
  const given = added.find(({ kind, record }) => kind === 'invoice' && record.id === invoiceId)
  const invoice = invoices.get(invoiceId) ?? (given?.kind === 'invoice' ? given.record : undefined)
  if (!invoice) return 'no_invoice'
  const decimals = decimalsOf(invoice.total)
  if (withDecimals(amount, decimals) === null) return 'too_fine'
  const own = added.flatMap((imported) => (imported.kind === 'payment' ? [imported.record] : []))
  const left = [...payments.values(), ...own]
    .filter((payment) => payment.invoiceId === invoiceId)
    .reduce<string | null>((rest, payment) => {
      const exact = withDecimals(payment.amount, decimals)
      return rest === null || exact === null ? rest : subtract(rest, exact, decimals)
    }, invoice.amountPaid)
  return left === null ? 'overpaid' : null
}

function isNumberTaken(records: ReadonlyMap<string, { readonly number: string }>, wanted: string): boolean {
  return [...records.values()].some(({ number }) => number === wanted)
}

// --- Writing ---

function store(organization: Organization, imported: ImportedRecord): void {
  const { id } = imported.record
  switch (imported.kind) {
    case 'business':
      organization.businesses.set(id, imported.record)
      return
    case 'client':
      storeClient(organization, toClient(organization, imported.record))
      return
    case 'lead': {
      const { businessId, ...lead } = imported.record
      organization.leads.set(id, { lead, businessId })
      return
    }
    case 'proposal': {
      const { minorUnits: decimals, place, signature, ...proposal } = imported.record
      organization.proposals.set(id, { ...proposal, decimals })
      if (signature) organization.signatures.set(id, signature)
      moveSeries(organization, place)
      return
    }
    case 'invoice': {
      const { minorUnits: _, place, ...invoice } = imported.record
      organization.invoices.set(id, invoice)
      moveSeries(organization, place)
      return
    }
    case 'payment': {
      const { invoiceId, amount } = imported.record
      const decimals = decimalsOf(organization.invoices.get(invoiceId)?.total ?? amount)
      const exact = withDecimals(amount, decimals) ?? amount
      organization.payments.set(id, { ...imported.record, amount: exact })
      return
    }
    case 'project':
      organization.projects.set(id, imported.record)
  }
}

function toClient(
  { businesses }: Organization,
  { businessId, ...client }: Omit<Client, 'business'> & { readonly businessId: string },
): Client {
  const business: Business | undefined = businesses.get(businessId)
  if (!business) throw new TypeError('Cannot import a client without a business')
  return { ...client, business }
}

function moveSeries(
  { numbers }: Organization,
  place: { readonly series: string; readonly count: number } | null,
): void {
  if (place) numbers.set(place.series, Math.max(numbers.get(place.series) ?? 0, place.count))
}
