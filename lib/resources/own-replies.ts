import type { KeyReservation } from '../writes/creation.ts'

// What `handle` of a host's own route receives, and what it may return beside plain data.

/** The parts of a request that only the library's functions use. */
export interface RouteState {
  readonly operationId: string
  /** Null: the route lists no pages. */
  readonly paging: Paging | null
  /** Null: the route takes no Idempotency-Key. */
  readonly reserve: (() => Omit<KeyReservation, 'reply'> | null) | null
  /**
   * Checks a result by the route's `response`.
   *
   * @returns the body of the answer
   * @throws `TypeError` naming the fields that do not fit
   */
  render(result: unknown): Promise<string>
  /** @throws `BusinessApiError` with code `store_unavailable` once the caller has had an answer */
  checkTime(): void
}

/** The page that a request asks for, and the way to the next one. */
export interface Paging extends RoutePage {
  linkAfter(id: string): string
}

const STATE = Symbol('state')
const REPLY = Symbol('reply')
declare const result: unique symbol

/** An admitted and checked request, as `handle` of a route receives it. */
export interface RouteContext<Input = unknown> {
  /** The organization of the API key. Every query of the host must be about it. */
  readonly organizationId: string
  readonly apiKey: { readonly id: string }
  readonly input: Input
  /** The id in the answer and in `X-Request-Id`. */
  readonly requestId: string
  /** Aborted when the caller has had 503, because the deadline has passed. */
  readonly signal: AbortSignal
  /** @internal */
  readonly [STATE]: RouteState
}

/** A reply that `page` or `idempotent` has made: what `handle` returns as it is. */
export interface RouteReply<Result = unknown> {
  /** @internal */
  readonly [REPLY]: ReplyParts
  readonly [result]?: Result
}

/** The parts of a reply. */
export interface ReplyParts {
  readonly headers: Readonly<Record<string, string>>
  /** The data, not checked yet. */
  readonly data?: unknown
  /** The exact body, checked and stored, instead of the data. */
  readonly body?: string
}

/** Builds a context. @param request the fields of the context, of which some may be made when asked for */
export function createContext(request: Omit<RouteContext, typeof STATE>, state: RouteState): RouteContext {
  return Object.defineProperty(request, STATE, { value: state }) as RouteContext
}

/** @throws `TypeError` for a context that the library has not made, or a copy */
export function stateOf(context: RouteContext): RouteState {
  const state: RouteState | undefined = Object(context)[STATE]
  if (state) return state
  throw new TypeError('Cannot use the context of a route because it is not the one that handle() was given')
}

/** Makes a reply. */
export function createReply<Result>(parts: ReplyParts): RouteReply<Result> {
  return { [REPLY]: parts }
}

/** Reads the result of `handle`: the parts of a reply, or plain data. */
export function partsOfResult(given: unknown): ReplyParts {
  const parts: ReplyParts | undefined = Object(given)[REPLY]
  return parts ?? { headers: {}, data: given }
}

// --- Pages ---

/** The page that a request asks for. */
export interface RoutePage {
  /** The greatest number of records: 1 to 200. */
  readonly limit: number
  /** Null: the newest records; else the records after the one with this id, which need not exist, in the order of the list. */
  readonly before: string | null
}

/**
 * Reads the page that a request asks for, from `limit` and `before` of the query.
 *
 * @throws `TypeError` in a route without `paged`
 * @example
 * ```ts
 * const { limit, before } = readPage(context)
 * const rows = await sql`select … where organization_id = ${organizationId} and (${before}::text is null or id < ${before})
 *   order by id desc limit ${limit + 1}`
 * return page(rows, context)
 * ```
 */
export function readPage(context: RouteContext): RoutePage {
  const { limit, before } = pagingOf(context)
  return { limit, before }
}

/**
 * Makes the reply of a list: `{ data }`, with a `Link` to the next page if there is one.
 *
 * @param records in the order of the list, one more than `limit` if there are more
 * @param idOf the `before` of the page that follows a record. Default the record's `id`
 */
export function page<Item>(
  records: readonly Item[],
  context: RouteContext,
  idOf: (record: Item) => unknown = (record) => Object(record).id,
): RouteReply<{ data: Item[] }> {
  const { limit, linkAfter } = pagingOf(context)
  const data = records.slice(0, limit)
  const last = data.at(-1)
  const headers = records.length > limit && last !== undefined ? { Link: linkAfter(String(idOf(last))) } : {}
  return createReply({ data: { data }, headers })
}

function pagingOf(context: RouteContext): Paging {
  const { paging, operationId } = stateOf(context)
  if (paging) return paging
  throw new TypeError(`Cannot page through '${operationId}' because its route does not say paged: true`)
}
