import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { IdSchema, oneOf } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type Client,
  type ClientFilter,
  CreateClientInputSchema,
  newClient,
  type StoredClient,
} from '../resources/clients.ts'
import type { NewBusiness } from './businesses.ts'
import { type CallOptions, type CallTools, changed, createBuildWrite, created } from './calls.ts'
import { createReads, type Reads, StatesSchema } from './reads.ts'

// --- Types ---

/** All client statuses. */
export const STATUSES = ['active', 'inactive'] as const

/** Whether a client is active. */
export type ClientStatus = (typeof STATUSES)[number]

/** A client's revenue, with up to three decimal places. Missing properties stay unchanged. */
export interface ClientRevenue extends CallOptions {
  readonly clientId: string
  readonly totalRevenue?: number | undefined
  readonly monthlyRevenue?: number | undefined
}

/** Filtering and paging options for clients. Missing properties match everything. */
export interface ClientQuery extends PageQuery, ClientFilter {}

/** Client calls. They throw `not_found` if the organization has no client with the given id. */
export interface ClientCalls extends Reads<StoredClient, ClientQuery> {
  /** Creates a client and its business, like the API does. Publishes `business.created`, then `client.created`. */
  create(organizationId: string, client: NewBusiness): Promise<Client>
  /** Active ⇄ inactive. Setting the current status again is a no-op. Doesn't publish anything. */
  setStatus(
    organizationId: string,
    change: { readonly clientId: string; readonly status: ClientStatus } & CallOptions,
  ): Promise<Client>
  /** Sets either or both revenues. Doesn't publish anything. */
  setRevenue(organizationId: string, revenue: ClientRevenue): Promise<Client>
}

// --- Inputs ---

const SET_STATUS_FIELDS = {
  clientId: IdSchema,
  status: oneOf(STATUSES),
}
const SET_REVENUE_FIELDS = {
  clientId: IdSchema,
  totalRevenue: v.exactOptional(field.decimal()),
  monthlyRevenue: v.exactOptional(field.decimal()),
}
const FILTER = { statuses: v.exactOptional(StatesSchema), businessId: v.exactOptional(IdSchema) }

// --- Calls ---

/** Creates the client calls. */
export function createClientCalls(store: Pick<RecordStore, 'clients'>, tools: CallTools): ClientCalls {
  const build = createBuildWrite(tools)
  return {
    ...createReads(['client', 'clients'], FILTER, () => store.clients),
    create: build(
      'clients.create',
      'Cannot create the client',
      CreateClientInputSchema.entries,
      async (call) =>
        created(call, newClient(call.input, call.context), (creation) => store.clients.create(creation)),
    ),
    setStatus: build(
      'clients.setStatus',
      'Cannot set the status of the client',
      SET_STATUS_FIELDS,
      async (call) => {
        const { clientId, ...set } = call.input
        const change = { recordId: clientId, from: STATUSES, set }
        return changed(call, change, (given) => store.clients.change(given), {})
      },
    ),
    setRevenue: build(
      'clients.setRevenue',
      'Cannot set the revenue of the client',
      SET_REVENUE_FIELDS,
      async (call) => {
        const { clientId, ...set } = call.input
        return changed(call, { recordId: clientId, set }, (change) => store.clients.change(change), {})
      },
    ),
  }
}
