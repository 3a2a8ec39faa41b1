import * as v from 'valibot'
import { defineCall } from '../base/host-input.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import { isPlain, type Names, PLAIN, printValue, rejectUnknown } from '../base/options.ts'
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

/** Options for `createPlatform`. Each option is read once. */
export interface PlatformOptions {
  /** Returns the current Unix time in milliseconds for timestamps. Defaults to `Date.now`. */
  clock?: Clock | undefined
  /**
   * Generates ids for records and events. Ids must be the kind, `_`, then 1 to 59 letters, digits, hyphens or
   * underscores. If an id is invalid, the call throws a `TypeError` and nothing is written. Later ids must sort after
   * earlier ones. Defaults to monotonic ULIDs.
   */
  ids?: Ids | undefined
  /** Number of decimal places (0 to 4) by currency code, to override ISO 4217. For example, `{ HUF: 0 }`. */
  currencyDecimals?: Readonly<Record<string, number>> | undefined
  /**
   * Returns the current trace's W3C `traceparent`, which is stored with events. Webhook attempts have it in
   * `AttemptTrace.traceparent`. If the function throws or returns an invalid value, there is no trace. Optional.
   */
  traceparent?: CurrentTraceparent | undefined
}

/** Options for `publish`. */
export interface PublishOptions {
  /** The event's id, 1 to 64 visible ASCII characters. An existing event with the id is kept. Defaults to a new id. */
  id?: string | undefined
}

const CALLS = {
  businesses: createBusinessCalls,
  clients: createClientCalls,
  leads: createLeadCalls,
  proposals: createProposalCalls,
  invoices: createInvoiceCalls,
  projects: createProjectCalls,
}

/** The record calls, for example `platform.invoices.issue`. */
export type RecordCalls = {
  readonly [Resource in keyof typeof CALLS]: ReturnType<(typeof CALLS)[Resource]>
}

/**
 * Calls for your own code. The first argument is always the organization. Calls write the record and its events
 * atomically (see section 6 of the spec), and return the updated record.
 * All calls throw `BusinessApiError` with code `invalid_input` if the input is invalid, and `idempotency_key_reused` or
 * `idempotency_key_in_use` if the idempotency key can't be used. They also throw any store errors.
 */
export interface Platform<Owner extends EventOwner = Service> extends RecordCalls {
  /**
   * Imports up to 500 existing records, all or nothing, with your own ids, dates, numbers and statuses (including final
   * ones). Doesn't publish anything. You can safely run an import again: records that exist with the same id and values
   * are counted as known, and if the values differ, the record is reported but not overwritten. Import businesses in
   * the same call as their clients and leads, or in an earlier call. Document number series continue after the highest
   * imported number.
   *
   * @throws `BusinessApiError` with code `invalid_input` naming the first invalid record and its fields, `not_found` if
   * a business or invoice doesn't exist, or `already_exists` if another record has the same number or client's business
   */
  readonly import: ImportCall

  /**
   * Publishes an event to all endpoints subscribed to its type. The type can be your own (`defineEvent`) or from the
   * catalogue. In practice, the latter are mostly support tickets and marketing campaigns (see section 6 of the spec).
   *
   * @param data must match the type's schema. Unknown fields are removed
   * @returns the event's id
   * @throws `BusinessApiError` with code `invalid_event` if the type is unknown or `data` doesn't match its schema
   */
  publish<Type extends EventTypeOf<Owner>>(
    organizationId: string,
    type: Type,
    data: PublishedData<Owner>[Type],
    options?: PublishOptions,
  ): Promise<string>
}

/** The calls within one of your transactions. */
export interface PlatformInTransaction<Owner extends EventOwner = Service> extends Platform<Owner> {
  readonly idempotent: Idempotent
}

/** A platform that can write in your own transactions as well. */
export interface TransactionalPlatform<Transaction, Owner extends EventOwner = Service>
  extends Platform<Owner> {
  /**
   * Returns the same calls for use in your own transaction. Nothing is written until you commit. If a call is rejected
   * with an error, you can keep using the transaction. After `store_unavailable`, the transaction has failed, and you
   * can retry it as a whole.
   *
   * @param transaction a transaction of the store's driver. For postgres.js, that's the argument passed to the
   * `sql.begin` callback
   */
  using(transaction: Transaction): PlatformInTransaction<Owner>
}

/** A store that can write in the host's transactions. */
export interface TransactionalStore<Transaction> extends RecordStore {
  using(transaction: Transaction): TransactionStore
}

const NAMES: Names<PlatformOptions> = { clock: true, ids: true, currencyDecimals: true, traceparent: true }

/** How long to wait for another call with the same idempotency key, in milliseconds. */
const WAIT_MS = 4000

/** A store whose service defines the host's own event types. */
interface Serving<Owner extends EventOwner> {
  readonly service?: Owner
}

/**
 * Creates the calls for your own code. Doesn't open any connections until the first call.
 *
 * @throws `RangeError` if a currency's number of decimal places is invalid
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
/** Creates the calls for a store that can't write in your own transactions. */
export function createPlatform<Owner extends EventOwner = Service>(
  store: RecordStore & Serving<Owner>,
  options?: PlatformOptions,
): Platform<Owner>
/** @internal */
export function createPlatform<Transaction>(
  store: RecordStore & Partial<TransactionalStore<Transaction>> & Serving<EventOwner>,
  options: PlatformOptions = {},
): Platform | TransactionalPlatform<Transaction> {
  // Doesn't read the slice, because a store may create its slices when they're first used.
  if (!('imports' in Object(store)))
    throw new TypeError(
      `Cannot use the store because it has no records: current value is ${printValue(store)}`,
    )
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
  if (!isPlain(given)) throw new TypeError(`Option 'currencyDecimals' must be ${PLAIN}`)
  const decimals = new Map(Object.entries(given))
  for (const [code, value] of decimals) {
    if (/^[A-Z]{3}$/.test(code) && Number.isInteger(value) && value >= 0 && value <= 4) continue
    throw new RangeError(
      "Option 'currencyDecimals' must give codes of three capital letters 0 to 4 decimals: " +
        `current value for '${code}' is ${printValue(value)}`,
    )
  }
  return (currency) => decimals.get(currency) ?? minorUnits(currency)
}

const readPublish = defineCall('Cannot publish the event', {
  // Checked along with the event, see checkEvent
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
