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

/** Options of `createPlatform`. Each option is read once. */
export interface PlatformOptions {
  /** Returns milliseconds since 1970 (UTC), used for timestamps. Defaults to `Date.now`. */
  clock?: Clock | undefined
  /**
   * Generates ids of records and events. An id must consist of the kind, `_`, and 1 to 59 letters, digits, hyphens and
   * underscores. Otherwise the call throws a `TypeError` and doesn't write anything. Later ids must sort after earlier
   * ones. Defaults to monotonic ULIDs.
   */
  ids?: Ids | undefined
  /** Number of decimals (0 to 4) by currency code, if you need to deviate from ISO 4217, for example `{ HUF: 0 }`. */
  currencyDecimals?: Readonly<Record<string, number>> | undefined
  /**
   * Returns the W3C `traceparent` of the current trace, which is stored with events. Webhook attempts provide it as
   * `AttemptTrace.traceparent`. If the value is invalid or the function throws, there is no trace. Optional.
   */
  traceparent?: CurrentTraceparent | undefined
}

/** Options of `publish`. */
export interface PublishOptions {
  /** Id of the event, 1 to 64 visible ASCII characters. If it exists, that event is kept. Defaults to a new id. */
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

/** The calls for records, for example `platform.invoices.issue`. */
export type RecordCalls = {
  readonly [Resource in keyof typeof CALLS]: ReturnType<(typeof CALLS)[Resource]>
}

/**
 * Calls for your own code. All of them take the organization first. They write the record and its events atomically
 * (specification, section 6) and return the updated record.
 *
 * All calls throw `BusinessApiError` with code `invalid_input` if the input is invalid, `idempotency_key_reused` or
 * `idempotency_key_in_use` if the idempotency key can't be used, and errors of the store.
 */
export interface Platform<Owner extends EventOwner = Service> extends RecordCalls {
  /**
   * Imports up to 500 existing records with your own ids, dates, numbers and statuses, including final ones.
   * Either all of them are imported or none. Publishes nothing. You can run an import again. If a record with the
   * same id and values exists, it's counted as known. If the values differ, it's reported and not overwritten. A
   * business must be in the same or an earlier call as its clients and leads. Series of document numbers continue
   * after the imported numbers.
   *
   * @throws `BusinessApiError` with code `invalid_input` naming the first invalid record and its fields, `not_found` if
   * a business or invoice is unknown, `already_exists` if another record has the same number or client's business
   */
  readonly import: ImportCall

  /**
   * Publishes an event to all endpoints that are subscribed to its type. This can be one of your own types
   * (`defineEvent`) or one from the catalogue. From the catalogue it's mostly used for support tickets and marketing
   * campaigns (specification, section 6).
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

/** A platform that can also write in your own transactions. */
export interface TransactionalPlatform<Transaction, Owner extends EventOwner = Service>
  extends Platform<Owner> {
  /**
   * Returns the same calls for use in your own transaction. Whether anything is written depends on your commit or
   * rollback. If a call throws an error because it was rejected, the transaction remains usable. After
   * `store_unavailable` the transaction has failed, and you can try all of it again.
   *
   * @param transaction a transaction of the store's driver. For postgres.js, it's the argument of the
   * callback of `sql.begin`
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

/** A store with a service, which defines the host's own event types. */
interface Serving<Owner extends EventOwner> {
  readonly service?: Owner
}

/**
 * Creates the calls for your own code. Nothing is opened before the first call.
 *
 * @throws `RangeError` if the decimals of a currency are invalid
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
  // Checked together with the event, see checkEvent.
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
