import * as v from 'valibot'
import { defineCall } from '../base/host-input.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import { type Names, rejectUnknown } from '../base/options.ts'
import { type CurrentTraceparent, createTraceparentReader } from '../base/traceparent.ts'
import { traceStore } from '../base/tracing.ts'
import type { RecordStore, TransactionStore } from '../business-store.ts'
import { minorUnits } from '../resources/currencies.ts'
import type { EventOwner, EventTypeOf, PublishedData } from '../resources/own-events.ts'
import { checkEvent } from '../resources/publishing.ts'
import type { Service } from '../service.ts'
import { createBusinessCalls } from './businesses.ts'
import type { CallTools } from './calls.ts'
import { createClientCalls } from './clients.ts'
import { createIdempotent, type Idempotent } from './idempotent.ts'
import type { ImportCall } from './import-records.ts'
import { createImportCall } from './imports.ts'
import { createInvoiceCalls } from './invoices.ts'
import { createLeadCalls } from './leads.ts'
import { createProjectCalls } from './projects.ts'
import { createProposalCalls } from './proposals.ts'

/** Options of `createPlatform`. Each is read once. */
export interface PlatformOptions {
  /** Milliseconds since 1970 in UTC, for timestamps. Default `Date.now`. */
  clock?: Clock | undefined
  /**
   * Makes the ids of records and events: the kind, `_`, and 1 to 59 letters, digits, hyphens and underscores; a call that would make
   * another id throws `TypeError` and writes nothing. Later ids must sort after earlier ones. Default monotonic ULIDs.
   */
  ids?: Ids | undefined
  /** Decimals of currencies, 0 to 4 by code, for a host that departs from ISO 4217: `{ HUF: 0 }`. */
  currencyDecimals?: Readonly<Record<string, number>> | undefined
  /**
   * Returns the current trace's W3C `traceparent` for a call's events: webhook attempts show it as `AttemptTrace.traceparent`. A value
   * in another form, and an error of the function, count as no trace. Default none.
   */
  traceparent?: CurrentTraceparent | undefined
}

/** Options of `publish`. */
export interface PublishOptions {
  /** The event's id, 1 to 64 visible ASCII characters. Of two events with the same id the first stands. Default a new id. */
  id?: string | undefined
}

/** The calls about each resource. */
const CALLS = {
  businesses: createBusinessCalls,
  clients: createClientCalls,
  leads: createLeadCalls,
  proposals: createProposalCalls,
  invoices: createInvoiceCalls,
  projects: createProjectCalls,
}

/** The calls about records: `platform.invoices.issue`. */
export type RecordCalls = {
  readonly [Resource in keyof typeof CALLS]: ReturnType<(typeof CALLS)[Resource]>
}

/**
 * The calls of the host's own code. Every call takes the organization first, writes the record and the events in a single
 * atomic step or writes nothing (specification, section 6), and returns the record after the change.
 *
 * Every call throws `BusinessApiError` with code `invalid_input` for an unusable input,
 * `idempotency_key_reused` and `idempotency_key_in_use` for an idempotency key, and every error of the store.
 */
export interface Platform<Owner extends EventOwner = Service> extends RecordCalls {
  /**
   * Imports records that exist already, with the host's own ids, dates, numbers and statuses, final ones included: at most 500
   * in a call, all or none. Publishes nothing. A record of the same id and with the same values is counted as known, so an
   * import can be run again; a record of the same id with other values is reported and not overwritten. A business comes in the
   * same call as its clients and leads, or in an earlier call. The series of document numbers go on after the imported numbers.
   *
   * @throws `BusinessApiError` with code `invalid_input`, naming the first record and the fields that cannot be used; with code
   *   `not_found` for an unknown business or invoice; with code `already_exists` for a number or the business of a client that
   *   another record has
   */
  readonly import: ImportCall

  /**
   * Publishes an event to every endpoint that wants its type: one of the host's own (`defineEvent`) or of the catalogue, mostly about
   * support tickets and marketing campaigns (specification, section 6).
   *
   * @param data by the schema of the type; unknown fields are left out
   * @returns the event's id
   * @throws `BusinessApiError` with code `invalid_event` for an unknown type, and when `data` breaks the schema
   */
  publish<Type extends EventTypeOf<Owner>>(
    organizationId: string,
    type: Type,
    data: PublishedData<Owner>[Type],
    options?: PublishOptions,
  ): Promise<string>
}

/** The calls in a transaction of the host's. */
export interface PlatformInTransaction<Owner extends EventOwner = Service> extends Platform<Owner> {
  readonly idempotent: Idempotent
}

/** A platform with calls in the host's own transaction. */
export interface TransactionalPlatform<Transaction, Owner extends EventOwner = Service>
  extends Platform<Owner> {
  /**
   * Makes the same calls in the host's own transaction: the host's commit or rollback decides about the writes. A call that
   * is rejected with a typed error leaves the transaction unchanged. After `store_unavailable` the transaction has failed, and
   * the host may try the whole transaction again.
   *
   * @param transaction of the store's driver: with postgres.js the argument of `sql.begin`'s callback
   */
  using(transaction: Transaction): PlatformInTransaction<Owner>
}

/** A store that can write in the host's own transaction. */
export interface TransactionalStore<Transaction> extends RecordStore {
  using(transaction: Transaction): TransactionStore
}

const NAMES: Names<PlatformOptions> = { clock: true, ids: true, currencyDecimals: true, traceparent: true }

/** Maximum wait for an unfinished call with the same idempotency key, in ms. */
const WAIT_MS = 4000

/** A store's service, which has the host's own event types. */
interface Serving<Owner extends EventOwner> {
  readonly service?: Owner
}

/**
 * Creates the calls for your own code. Opens nothing until the first call.
 *
 * @throws `RangeError` for invalid decimals of a currency
 * @example
 * ```ts
 * const calls = createPlatform(store)
 * const invoice = await calls.invoices.create('org_42', { currency: 'TND', total: '1250.000', dueDate })
 * await calls.invoices.issue('org_42', { invoiceId: invoice.id })
 * ```
 */
export function createPlatform<Transaction, Owner extends EventOwner = Service>(
  store: TransactionalStore<Transaction> & Serving<Owner>,
  options?: PlatformOptions,
): TransactionalPlatform<Transaction, Owner>
/** Creates the calls for a store that cannot write in the host's own transaction. */
export function createPlatform<Owner extends EventOwner = Service>(
  store: RecordStore & Serving<Owner>,
  options?: PlatformOptions,
): Platform<Owner>
/** @internal */
export function createPlatform<Transaction>(
  store: RecordStore & Partial<TransactionalStore<Transaction>> & Serving<EventOwner>,
  options: PlatformOptions = {},
): Platform | TransactionalPlatform<Transaction> {
  rejectUnknown(options, NAMES)
  const { clock = Date.now, ids, currencyDecimals = {}, traceparent = () => undefined } = options
  const tools = {
    clock,
    ids: readIds(ids, clock),
    minorUnits: readDecimals(currencyDecimals),
    traceparent: createTraceparentReader(traceparent),
    owner: { events: store.service?.events ?? [] },
  }
  const platform = createCalls(traceStore(store), { ...tools, waitMs: WAIT_MS })
  if (store.using === undefined) return platform
  const using = store.using.bind(store)
  return {
    ...platform,
    using(transaction) {
      const own = traceStore(using(transaction))
      return {
        ...createCalls(own, { ...tools, waitMs: null }),
        idempotent: createIdempotent(own.replies, tools.ids),
      }
    },
  }
}

function readDecimals(given: Readonly<Record<string, number>>): (currency: string) => number {
  const decimals = new Map(Object.entries(given))
  for (const [code, value] of decimals) {
    if (/^[A-Z]{3}$/.test(code) && Number.isInteger(value) && value >= 0 && value <= 4) continue
    throw new RangeError(
      "Cannot use option 'currencyDecimals' because it must give codes of three capital letters 0 to 4 decimals: " +
        `current value for '${code}' is ${value}`,
    )
  }
  return (currency) => decimals.get(currency) ?? minorUnits(currency)
}

const readPublish = defineCall('Cannot publish the event', {
  // Judged with the event: see checkEvent.
  id: v.exactOptional(v.custom<string>(() => true)),
})

function createCalls(store: RecordStore, tools: CallTools & { readonly owner: EventOwner }): Platform {
  const { ids, clock, traceparent, owner: events } = tools
  const calls = Object.entries(CALLS).map(([resource, create]) => [resource, create(store, tools)])
  return {
    ...(Object.fromEntries(calls) as RecordCalls),
    import: createImportCall(store, tools),

    async publish(organizationId, type, data, options) {
      const { organizationId: owner, input } = readPublish(organizationId, options)
      const event = checkEvent(events, type, data, input.id, {
        ids,
        now: clock(),
        traceparent: traceparent(),
      })
      await store.events.publish(owner, event)
      return event.id
    },
  }
}
