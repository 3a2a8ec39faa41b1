import { type BusinessStore, businessTable } from './businesses.ts'
import { type ClientStore, type CreateClientInput, clientRoutes, clientTable } from './clients.ts'
import type { RecordTable } from './columns.ts'
import { type InvoiceStore, invoiceRoutes, invoiceTable, paymentTable } from './invoices.ts'
import { type CreateLeadInput, type LeadStore, leadRoutes, leadTable } from './leads.ts'
import { projects } from './projects.ts'
import { type ProposalStore, proposalRoutes, proposalTable } from './proposals.ts'
import type { PlainRecord, PlainStore } from './record-reads.ts'
import type { Route } from './route.ts'

// The resources joined. From these lists follow imports, exports, privileges, deletions, the types of a client and the collections of
// the store in memory.

/** The resources of plain records: both stores make their slices from the columns. */
export const PLAIN_RESOURCES = { projects }

/** The events of plain records. */
export const plainEvents = { ...projects.events }

type Plain = typeof PLAIN_RESOURCES
type PlainKinds = { readonly [Name in keyof Plain as Plain[Name]['kind']]: Plain[Name] }

/**
 * The columns of each kind of an organization's records, each kind after the kinds that it refers to: the order of imports and
 * exports.
 */
export const RECORD_TABLES = {
  business: businessTable,
  client: clientTable,
  lead: leadTable,
  proposal: proposalTable,
  invoice: invoiceTable,
  payment: paymentTable,
  ...(Object.fromEntries(Object.values(PLAIN_RESOURCES).map((one) => [one.kind, one])) as PlainKinds),
}

/** A kind of record. */
export type RecordKind = keyof typeof RECORD_TABLES

/** The kinds of records in that order. */
export const RECORD_KINDS = Object.keys(RECORD_TABLES) as readonly RecordKind[]

/** The fields of a record that have a column. */
type FieldsOf<Kind extends RecordKind> =
  (typeof RECORD_TABLES)[Kind] extends RecordTable<infer Fields> ? Fields : never

/** What a record has beside the fields with a column of their own. */
interface Beside {
  readonly client: { readonly businessId: string }
  readonly invoice: { readonly amountDue: string }
}

/** A record as a store keeps it. */
export type RecordRow<Kind extends RecordKind> = FieldsOf<Kind> &
  (Kind extends keyof Beside ? Beside[Kind] : unknown)

/** The slices of a store for plain records. */
export type PlainSlices = {
  readonly [Name in keyof Plain]: Plain[Name] extends RecordTable<infer Fields extends PlainRecord>
    ? PlainStore<Fields>
    : never
}

/** The slices of a store for records. */
export interface RecordSlices extends PlainSlices {
  readonly businesses: BusinessStore
  readonly clients: ClientStore
  readonly leads: LeadStore
  readonly invoices: InvoiceStore
  readonly proposals: ProposalStore
}

/** The input of each create operation. */
export interface CreateInputs {
  readonly clients: CreateClientInput
  readonly leads: CreateLeadInput
}

/** Declares every operation under /api/v1 (specification, section 4), each resource with its slice of the store. */
export function createRoutes(store: RecordSlices): readonly Route[] {
  return [
    ...clientRoutes(store.clients),
    ...leadRoutes(store.leads),
    ...invoiceRoutes(store.invoices),
    ...proposalRoutes(store.proposals),
    ...Object.entries(PLAIN_RESOURCES).flatMap(([name, { routes }]): readonly Route[] =>
      Reflect.apply(routes, undefined, [Reflect.get(store, name)]),
    ),
  ]
}
