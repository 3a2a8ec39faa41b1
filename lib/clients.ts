import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import { BusinessSchema, CreateBusinessInputSchema, newBusiness } from './businesses.ts'
import type { Change, ChangeOutcome } from './change.ts'
import type { Creation, CreationOutcome } from './creation.ts'
import { type RecordedEvent, recordEvent } from './envelope.ts'
import * as field from './fields.ts'
import { type Making, toTimestamp } from './making.ts'
import { createRoute, listRoute, type Route } from './route.ts'

// --- Schemas (specification, section 2) ---

/** A client as the API shows it. */
export const ClientSchema = v.object({
  id: field.id('cli', 'The client.'),
  status: field.word('State of the relationship.', 'active', 'inactive'),
  totalRevenue: field.amount('Revenue so far.', 18250.5),
  monthlyRevenue: field.amount('Recurring revenue of a month.', 1200),
  convertedAt: field.timestamp('When the business became a client.'),
  business: BusinessSchema,
})

/** What creating a client takes (specification, section 2, CreateClientInput). */
export const CreateClientInputSchema = CreateBusinessInputSchema

// --- Types ---

/** A client with its business. Revenues are numbers with at most three decimals. */
export type Client = v.InferOutput<typeof ClientSchema>
/** A validated CreateClientInput: `name`, and any of `category`, `city`, `email`, `phone`. */
export type CreateClientInput = v.InferOutput<typeof CreateClientInputSchema>
/** What of a client can be changed. */
export type ClientChanges = Partial<Pick<Client, 'status' | 'totalRevenue' | 'monthlyRevenue'>>

// --- Events (specification, section 6) ---

/** The events of clients. */
export const clientEvents = {
  'client.created': v.object({
    clientId: field.id('cli', 'The new client.'),
    businessId: field.id('biz', 'Its business.'),
    client: ClientSchema,
  }),
}

// --- Store ---

/** What a store must do for clients. */
export interface ClientStore {
  /**
   * Admits the request and, if admitted, reads the newest `limit` clients of the key's organization, newest id first.
   * The page is empty, not null, for an organization without clients.
   */
  list(request: AdmissionRequest, limit: number): Promise<AdmittedPage<Client>>

  /** Writes the client, its business, the events and the idempotency entry at once or not at all. */
  create(creation: Creation<Client>): Promise<CreationOutcome>

  /** Changes a client's status or its revenues. */
  change(change: Change<ClientChanges>): Promise<ChangeOutcome<Client>>
}

// --- Routes (specification, section 4) ---

/** The operations on clients. */
export function clientRoutes(store: ClientStore): readonly Route[] {
  return [
    listRoute({
      path: '/api/v1/clients',
      operationId: 'listClients',
      tag: 'Clients',
      scope: 'clients:read',
      summary: 'List clients',
      description: 'The newest clients of the organization, newest first.',
      item: ClientSchema,
      itemName: 'Client',
      list: (request, limit) => store.list(request, limit),
    }),
    createRoute({
      path: '/api/v1/clients',
      operationId: 'createClient',
      tag: 'Clients',
      scope: 'clients:write',
      summary: 'Create a client',
      description:
        'Creates a client and its business. Two identical requests without an Idempotency-Key make two clients.',
      input: CreateClientInputSchema,
      inputName: 'CreateClientInput',
      item: ClientSchema,
      itemName: 'Client',
      make: newClient,
      create: (creation) => store.create(creation),
    }),
  ]
}

/** The client that an input asks for, with the events of its creation in order: its business comes first. */
export function newClient(
  input: CreateClientInput,
  making: Making,
): { record: Client; item: Client; events: readonly RecordedEvent[] } {
  const { record: business, events } = newBusiness(input, making)
  const client: Client = {
    id: making.ids('cli'),
    status: 'active',
    totalRevenue: 0,
    monthlyRevenue: 0,
    convertedAt: toTimestamp(making.now),
    business,
  }
  return {
    record: client,
    item: client,
    events: [
      ...events,
      recordEvent(
        clientEvents,
        'client.created',
        { clientId: client.id, businessId: business.id, client },
        making,
      ),
    ],
  }
}
