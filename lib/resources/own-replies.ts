import type { ReplyStore } from '../writes/idempotency.ts'

// The argument of an own route's `handle`, and the results that are not plain data.

/** The key under which a context has what only the library's functions use. */
export const STATE = Symbol('state')
/** The key under which a reply has its body and headers. */
export const REPLY = Symbol('reply')

/** An admitted and checked request, as `handle` of a route receives it. */
export interface RouteContext<Params = unknown, Query = unknown, Body = unknown> {
  /** The organization of the API key. Every query of the host must be about it. */
  readonly organizationId: string
  readonly apiKey: { readonly id: string }
  /** The checked input: path parameters as strings, and the schemas' output. */
  readonly input: { readonly params: Params; readonly query: Query; readonly body: Body }
  /** The id in the response and in `X-Request-Id`. */
  readonly requestId: string
  /** Aborted when the deadline has passed, and the caller has had 503. */
  readonly signal: AbortSignal
  /** @internal */
  readonly [STATE]: RouteState
}

/** The parts of a context that only the library's functions use. */
export interface RouteState {
  /** Null: the route lists no pages. */
  readonly paging: (RoutePage & { linkAfter(id: string): string }) | null
  /** Returns what ends the work at the deadline. */
  ending(): AbortController
  /** Checks a result by the route's `response`, and gives the body of the response. @throws `TypeError` naming the fields that do not fit */
  render(result: unknown): string
  /** Does work once for the request's Idempotency-Key. */
  once(replies: ReplyStore, writeId: string, work: () => unknown): Promise<Rendered>
}

/** A reply that `page` or `idempotent` has made: what `handle` returns as it is. */
export interface RouteReply<Result = unknown> {
  /** @internal */
  readonly [REPLY]: Rendered & { readonly result?: Result }
}

/** The body of a success, with headers of its own: the `Link`, or that it is a replay. */
export interface Rendered {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** The page that a request asks for. */
export interface RoutePage {
  /** The maximum number of records: 1 to 200. */
  readonly limit: number
  /** Null: from the newest; else the records after the one with this id, which need not exist, in the order of the list. */
  readonly before: string | null
}

/**
 * Reads the page that a request asks for, from `limit` and `before` of the query.
 *
 * @throws `TypeError` in a route without `paged`
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
 * Returns the reply of a list: `{ data }`, with a `Link` to the next page if there is one.
 *
 * @param records in the list's order, one more than `limit` if there are more
 * @param idOf returns the `before` for the page after a record. Default the record's `id`
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
  const data = records.slice(0, limit)
  const headers = records.length > limit ? { Link: linkAfter(String(idOf(data[limit - 1] as Item))) } : {}
  return { [REPLY]: { body: context[STATE].render({ data }), headers } }
}

function pagingOf(context: RouteContext): NonNullable<RouteState['paging']> {
  const paging = context[STATE]?.paging
  if (paging) return paging
  throw new TypeError(
    "Cannot page because the context is not one that handle() received, or its route has no 'paged'",
  )
}
