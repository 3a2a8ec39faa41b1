import type * as v from 'valibot'
import type { Resource, WritableResource } from '../access/scopes.ts'
import { type BusinessStore, businessTable } from './businesses.ts'
import { type ClientStore, type CreateClientInput, clientOperations, clientTable } from './clients.ts'
import type { RecordTable } from './columns.ts'
import { type InvoiceStore, invoiceOperations, invoiceTable, paymentTable } from './invoices.ts'
import { type CreateLeadInput, type LeadStore, leadOperations, leadTable } from './leads.ts'
import { projects } from './projects.ts'
import { type ProposalStore, proposalOperations, proposalTable } from './proposals.ts'
import type { PlainRecord, PlainStore } from './record-reads.ts'
import { type Operations, type Route, routesOf, type Slice } from './route.ts'

// All resources combined. Imports, exports, privileges, deletions, client types and memory collections use these lists.

/** Resources with plain records. Both stores create their slices from the columns. */
export const PLAIN_RESOURCES = { projects }

type Plain = typeof PLAIN_RESOURCES
type Joined<One> = (One extends unknown ? (one: One) => void : never) extends (all: infer All) => void
  ? All
  : never

/** Events for plain records. */
export const plainEvents: Joined<Plain[keyof Plain]['events']> = Object.assign(
  {},
  ...Object.values(PLAIN_RESOURCES).map(({ events }) => events),
)

type PlainKinds = { readonly [Name in keyof Plain as Plain[Name]['kind']]: Plain[Name] }

/** The columns of all record types, in import and export order. Each type must come after the types it references. */
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

/** All kinds of records, in the same order as {@link RECORD_TABLES}. */
export const RECORD_KINDS = Object.keys(RECORD_TABLES) as readonly RecordKind[]

type FieldsOf<Kind extends RecordKind> =
  (typeof RECORD_TABLES)[Kind] extends RecordTable<infer Fields> ? Fields : never

interface Beside {
  readonly client: { readonly businessId: string }
  readonly invoice: { readonly amountDue: string }
}

/** A record, as stored. */
export type RecordRow<Kind extends RecordKind> = FieldsOf<Kind> &
  (Kind extends keyof Beside ? Beside[Kind] : unknown)

/** A store's slices for plain records. */
export type PlainSlices = {
  readonly [Name in keyof Plain]: Plain[Name] extends RecordTable<infer Fields extends PlainRecord>
    ? PlainStore<Fields>
    : never
}

/** A store's slices for all records. */
export interface RecordSlices extends PlainSlices {
  readonly businesses: BusinessStore
  readonly clients: ClientStore
  readonly leads: LeadStore
  readonly invoices: InvoiceStore
  readonly proposals: ProposalStore
}

/** The input for each create operation. */
export interface CreateInputs extends PlainInputs {
  readonly clients: CreateClientInput
  readonly leads: CreateLeadInput
}

type PlainInputs = {
  readonly [Name in keyof Plain & WritableResource]: Plain[Name] extends {
    readonly create: { readonly input: infer Input extends v.GenericSchema }
  }
    ? v.InferInput<Input>
    : never
}

/** Each resource's operations (see section 4 of the spec). */
const OPERATIONS = Object.entries<Operations>({
  clients: clientOperations,
  leads: leadOperations,
  invoices: invoiceOperations,
  proposals: proposalOperations,
  ...PLAIN_RESOURCES,
}) as readonly (readonly [Resource, Operations])[]

/** The kinds of records that the API creates. This includes businesses, since every new client has a new business. */
export const CREATED_KINDS: readonly RecordKind[] = [
  'business',
  ...OPERATIONS.flatMap(([, { kind, create }]) => (create ? [kind as RecordKind] : [])),
]

/** Returns all operations under /api/v1, connected to the store's slices. */
export function createRoutes(store: RecordSlices): readonly Route[] {
  return OPERATIONS.flatMap(([name, operations]) =>
    routesOf(name, operations, store[name] as object as Slice),
  )
}
