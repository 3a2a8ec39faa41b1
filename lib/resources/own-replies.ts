import type { ReplyStore } from '../writes/idempotency.ts'

// The argument for a route's `handle`, and the results that aren't plain data.

// Registered symbols, so `page` and `readPage` work even if the host imports them from another copy of this package.

/** A context property that only the library uses. */
export const STATE: unique symbol = Symbol.for('business-api-kit:state')
/** A reply property with the body and headers. */
export const REPLY: unique symbol = Symbol.for('business-api-kit:reply')

/** An admitted and validated request, as passed to a route's `handle`. */
export interface RouteContext<Params = unknown, Query = unknown, Body = unknown> {
  /** The organization that owns the API key. Limit all your queries to this organization. */
  readonly organizationId: string
  readonly apiKey: { readonly id: string }
  /** The validated input. Path parameters are strings, and everything else is your schemas' output. */
  readonly input: { readonly params: Params; readonly query: Query; readonly body: Body }
  /** The request id, also found in the response and `X-Request-Id`. */
  readonly requestId: string
  /** Aborted once the deadline has passed and the caller has received a 503. */
  readonly signal: AbortSignal
  /** @internal */
  readonly [STATE]: RouteState
}

/** The parts of a context that only the library uses. */
export interface RouteState {
  /** `null` if the route isn't paged. */
  readonly paging: (RoutePage & { linkAfter(id: string): string }) | null
  /** Returns the controller that aborts at the deadline. */
  ending(): AbortController
  /**
   * Validates a result against the route's `response` schema and returns the response body.
   *
   * @throws `TypeError` with the names of the invalid fields
   */
  render(result: unknown): string
  /** Runs `work` once per Idempotency-Key. */
  once(replies: ReplyStore, writeId: string, work: () => unknown): Promise<Rendered>
}

/** A reply created by `page` or `idempotent`. `handle` must return it unchanged. */
export interface RouteReply<Result = unknown> {
  /** @internal */
  readonly [REPLY]: Rendered & { readonly result?: Result }
}

/** A successful response's body and additional headers (`Link`, or the replay header). */
export interface Rendered {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** Selects a page of a list. */
export interface RoutePage {
  /** Maximum number of records, from 1 to 200. */
  readonly limit: number
  /** Return the records after this id, which doesn't have to exist. If `null`, start with the newest record. */
  readonly before: string | null
}

/**
 * Returns the page requested by `limit` and `before` in the query string.
 *
 * @throws `TypeError` if the route doesn't set `paged`
 *
 * @example
 * ```ts
 * const handle = async (context: RouteContext) => {
 *   const { limit, before } = readPage(context)
 *   return page(await sql`select id from bookings where id < ${before ?? '~'} order by id desc limit ${limit + 1}`, context)
 * }
 * ```
 */
export function readPage(context: RouteContext): RoutePage {
  const { limit, before } = pagingOf(context)
  return { limit, before }
}

/**
 * Creates the response of a list endpoint: `{ data }` and, if there are more records, a `Link` to the next page.
 *
 * @param records the records in list order. If there are more, include one extra (`limit` + 1)
 * @param idOf returns the `before` value for the page after a record. Defaults to the record's `id`
 *
 * @example
 * ```ts
 * const handle = async (context: RouteContext) => {
 *   const { limit } = readPage(context)
 *   return page(await sql`select id from bookings order by id desc limit ${limit + 1}`, context)
 * }
 * ```
 */
export function page<Item>(
  records: readonly Item[],
  context: RouteContext,
  idOf: (record: Item) => unknown = (record) => Object(record).id,
): RouteReply<{ data: Item[] }> {
  const { limit, linkAfter } = pagingOf(context)
  if (!Array.isArray(records)) throw new TypeError('Cannot page because the records are not a list')
  const data = records.slice(0, limit)
  const headers = records.length > limit ? { Link: linkAfter(String(idOf(data[limit - 1] as Item))) } : {}
  return { [REPLY]: { body: context[STATE].render({ data }), headers } }
}

function pagingOf(context: RouteContext): NonNullable<RouteState['paging']> {
  const paging = Object(context)[STATE]?.paging
  if (paging) return paging
  throw new TypeError(
    "Cannot page because the context is not one that handle() received, or its route has no 'paged'",
  )
}
