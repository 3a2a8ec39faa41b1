import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome, PreparedCreation } from '../writes/creation.ts'
import { buildEvent, eventType } from '../writes/event-envelope.ts'
import { toTimestamp, type WriteContext } from '../writes/write-context.ts'
import { BusinessSchema, CreateBusinessInputSchema, newBusiness } from './businesses.ts'
import type { RecordTable } from './columns.ts'
import type { ListedReads, StatusFilter, Updated } from './record-reads.ts'
import type { Operations } from './route.ts'

// --- Schemas (section 2 of the spec) ---

/** A client, as returned by the API. */
export const ClientSchema = v.object({
  id: field.id('cli', 'ID of the client.'),
  status: field.word('Status of the client.', 'active', 'inactive'),
  totalRevenue: field.amount('Total revenue to date.', 18250.5),
  monthlyRevenue: field.amount('Monthly recurring revenue.', 1200),
  convertedAt: field.timestamp('Time at which the business became a client.'),
  business: BusinessSchema,
})

/** Input for creating a client (see section 2 of the spec, CreateClientInput). */
export const CreateClientInputSchema = CreateBusinessInputSchema

// --- Types ---

/** A client and its business. Revenues are numbers with up to three decimal places. */
export type Client = v.InferOutput<typeof ClientSchema>
/** A client, as returned to the host. */
export interface StoredClient extends Client, Updated {}
/** The validated CreateClientInput, with the fields of a new business. */
export type CreateClientInput = v.InferOutput<typeof CreateClientInputSchema>
/** The client fields that can be changed. */
export type ClientChanges = Partial<Pick<Client, 'status' | 'totalRevenue' | 'monthlyRevenue'>>

// --- Columns ---

/** The client columns, stored in the business's row. */
export const clientTable: RecordTable<Omit<Client, 'business'>> = {
  kind: 'client',
  idKind: 'cli',
  table: 'businesses',
  columns: {
    id: { name: 'client_id' },
    status: { name: 'client_status', isChangeable: true },
    totalRevenue: { type: 'numeric(15, 3)', isChangeable: true },
    monthlyRevenue: { type: 'numeric(15, 3)', isChangeable: true },
    convertedAt: { type: 'timestamptz' },
  },
}

// --- Events (section 6 of the spec) ---

/** Client events by type. */
export const clientEvents = {
  'client.created': eventType(
    'A client was created',
    'An alternative to polling the list of clients. `client` has all fields, so you can upsert it by `id`.',
    {
      clientId: field.id('cli', 'ID of the client.'),
      businessId: field.id('biz', "ID of the client's business."),
      client: ClientSchema,
    },
  ),
}

// --- Store ---

/** Filters clients. Omitted properties match everything. */
export interface ClientFilter extends StatusFilter {
  /** The client's business. Matches at most one client. */
  readonly businessId?: string | undefined
}

/** The part of a store that manages clients. */
export interface ClientStore extends ListedReads<Client, StoredClient, ClientFilter> {
  /** Writes the client, the business, the events and the idempotency entry in one transaction. */
  create(creation: Creation<Client>): Promise<CreationOutcome>

  /** Changes a client's status or revenues. */
  change(change: Change<ClientChanges>): Promise<ChangeOutcome<Client>>
}

// --- Operations (section 4 of the spec) ---

/** The client operations. */
export const clientOperations: Operations = {
  ...clientTable,
  about: 'Businesses that the organization works for.',
  representation: ClientSchema,
  create: {
    input: CreateClientInputSchema,
    prepare: (input, context) => newClient(input as CreateClientInput, context),
    summary: 'Create a client',
    description:
      'Creates a client and its business. Two identical requests without an Idempotency-Key create two clients.',
  },
}

/**
 * Builds a client from validated input, along with a `business.created` and a `client.created` event, in this order.
 */
export function newClient(input: CreateClientInput, context: WriteContext): PreparedCreation<Client, Client> {
  const { record: business, events } = newBusiness(input, context)
  const client: Client = { ...convertedClient(context), business }
  return {
    record: client,
    representation: client,
    events: [
      ...events,
      buildEvent(
        clientEvents,
        'client.created',
        { clientId: client.id, businessId: business.id, client },
        context,
      ),
    ],
  }
}

/** Builds the client that a business becomes. */
export function convertedClient({ ids, now }: WriteContext): Omit<Client, 'business'> {
  const convertedAt = toTimestamp(now)
  return { id: ids('cli'), status: 'active', totalRevenue: 0, monthlyRevenue: 0, convertedAt }
}
