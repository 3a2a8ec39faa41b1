import * as v from 'valibot'
import { minorUnits } from '../currencies.ts'
import type { EventData, EventType } from '../events.ts'
import { type Clock, createIds, type Ids } from '../ids.ts'
import { OrganizationIdSchema, read } from '../input.ts'
import { checkEvent } from '../publishing.ts'
import type { RecordStore } from '../store.ts'
import { traceStore } from '../tracing.ts'
import { type BusinessCalls, createBusinessCalls } from './businesses.ts'
import type { CallTools } from './calls.ts'
import { type ClientCalls, createClientCalls } from './clients.ts'
import { createInvoiceCalls, type InvoiceCalls } from './invoices.ts'
import { createLeadCalls, type LeadCalls } from './leads.ts'
import { createProjectCalls, type ProjectCalls } from './projects.ts'
import { createProposalCalls, type ProposalCalls } from './proposals.ts'

/** Options of `createPlatform`. Each is read once. */
export interface PlatformOptions {
  /** Milliseconds since 1970 in UTC, for timestamps. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of records and events. Default monotonic ULIDs. */
  ids?: Ids | undefined
  /** Decimals of currencies, 0 to 4 by code, where ISO 4217 is not what the host goes by: `{ HUF: 0 }`. */
  currencyDecimals?: Readonly<Record<string, number>> | undefined
}

/** Options of `publish`. */
export interface PublishOptions {
  /** The event's id, 1 to 64 visible ASCII characters: published twice with the same id, the first stands. Default a new one. */
  id?: string | undefined
}

/**
 * What the host's own code does. Every call takes the organization first, is one atomic step that writes the record and
 * its events (specification, section 6) at once or not at all, and gives the record as it is then.
 *
 * Every call throws `BusinessApiError` with code `invalid_input` for an input that cannot be used,
 * `idempotency_key_reused` and `idempotency_key_in_use` for its idempotency key, and what the store throws.
 */
export interface Platform {
  readonly businesses: BusinessCalls
  readonly clients: ClientCalls
  readonly leads: LeadCalls
  readonly proposals: ProposalCalls
  readonly invoices: InvoiceCalls
  readonly projects: ProjectCalls

  /**
   * Publishes an event of what lives in the host, support tickets and marketing campaigns above all, to every endpoint of
   * the organization that wants its type (specification, section 6).
   *
   * @param data what the type's schema says; fields that it does not have are left out
   * @returns the event's id
   * @throws `BusinessApiError` with code `invalid_event` when `data` is not what the schema says
   */
  publish<Type extends EventType>(
    organizationId: string,
    type: Type,
    data: EventData<Type>,
    options?: PublishOptions,
  ): Promise<string>
}

/** A platform whose calls can also be made in a transaction of the host's. */
export interface TransactionalPlatform<Transaction> extends Platform {
  /**
   * The same calls in a transaction of the host's: what they write is there when the host commits, and never was when it
   * rolls back. A call that is refused with a typed error leaves the transaction as it was, but for `store_unavailable`:
   * then the transaction has failed, and the host may try it again as a whole.
   *
   * @param transaction what the store's driver gives: of postgres.js, what the callback of `sql.begin` is given
   */
  using(transaction: Transaction): Platform
}

/** A store that can write in a transaction of the host's. */
export interface TransactionalStore<Transaction> extends RecordStore {
  using(transaction: Transaction): RecordStore
}

/** How long a call waits for another one with the same idempotency key. */
const WAIT_MS = 4000

/**
 * Opens nothing and writes nothing until a call is made.
 *
 * @throws `RangeError` for decimals of a currency that cannot be used
 */
export function createPlatform<Transaction>(
  store: TransactionalStore<Transaction>,
  options?: PlatformOptions,
): TransactionalPlatform<Transaction>
/** The same with a store that has no transactions of the host's. */
export function createPlatform(store: RecordStore, options?: PlatformOptions): Platform
/** @internal */
export function createPlatform<Transaction>(
  store: RecordStore & Partial<TransactionalStore<Transaction>>,
  { clock = Date.now, ids = createIds(clock), currencyDecimals = {} }: PlatformOptions = {},
): Platform | TransactionalPlatform<Transaction> {
  const tools = { clock, ids, minorUnits: readDecimals(currencyDecimals) }
  const platform = createCalls(traceStore(store), { ...tools, waitMs: WAIT_MS })
  if (store.using === undefined) return platform
  const using = store.using.bind(store)
  return {
    ...platform,
    using: (transaction) => createCalls(traceStore(using(transaction)), { ...tools, waitMs: null }),
  }
}

function readDecimals(given: Readonly<Record<string, number>>): (currency: string) => number {
  const decimals = new Map(Object.entries(given))
  for (const [code, value] of decimals) {
    if (/^[A-Z]{3}$/.test(code) && Number.isInteger(value) && value >= 0 && value <= 4) continue
    throw new RangeError(
      "Cannot use option 'currencyDecimals' as it must give codes of three capital letters 0 to 4 decimals: " +
        `current value for '${code}' is ${value}`,
    )
  }
  return (currency) => decimals.get(currency) ?? minorUnits(currency)
}

const PublishSchema = v.object({ organizationId: OrganizationIdSchema })

function createCalls(store: RecordStore, tools: CallTools): Platform {
  const { ids, clock } = tools
  return {
    businesses: createBusinessCalls(store, tools),
    clients: createClientCalls(store, tools),
    leads: createLeadCalls(store, tools),
    proposals: createProposalCalls(store, tools),
    invoices: createInvoiceCalls(store, tools),
    projects: createProjectCalls(store, tools),

    async publish(organizationId, type, data, { id } = {}) {
      const input = read(PublishSchema, { organizationId }, 'Cannot publish the event')
      const event = checkEvent(type, data, id, { ids, now: clock() })
      await store.events.publish(input.organizationId, event)
      return event.id
    },
  }
}
