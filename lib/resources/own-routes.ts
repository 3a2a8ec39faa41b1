import * as v from 'valibot'
import { type KeyScope, type ScopeOwner, scopesOf } from '../access/scopes.ts'
import { read } from '../base/host-input.ts'
import { isPlain } from '../base/options.ts'
import { isStandardSchema, type StandardSchema } from '../base/standard-schema.ts'
import type { RouteContext, RouteReply } from './own-replies.ts'

// The routes of a host beside the library's operations. They live in the service, and everything that knows operations takes them from there.

// --- Types ---

/**
 * A route of the host, as returned by {@link defineRoute}.
 *
 * @typeParam Path its parameters in braces become the input's `params`
 * @typeParam Query the output of the schema `query`
 * @typeParam Body the output of the schema `body`
 * @typeParam Result the input of the schema `response`
 */
export interface Route<Path extends string = string, Query = unknown, Body = unknown, Result = unknown> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below `/api/v1`: `/bookings/{bookingId}`. The names in braces are parameters, of letters, digits, `.`, `_` and `-`. */
  readonly path: Path
  /** The name of the operation in the document, in hooks and traces: `createBooking`. */
  readonly operationId: string
  /** A line for lists of operations: `Create a booking`. */
  readonly summary: string
  /** Details beyond the summary. Default: nothing more. */
  readonly description?: string | undefined
  /** The group of the operation in the document: `Bookings`. */
  readonly tag: string
  /** The scope that a key needs: the library's, or one of the service's `scopes`. */
  readonly scope: KeyScope
  /** The schema of the query, whose values are strings, or arrays of strings for a repeated name. Default: the query is ignored. */
  readonly query?: StandardSchema<unknown, Query> | undefined
  /** The schema of the JSON body. Default: no body is read. Not with GET. */
  readonly body?: StandardSchema<unknown, Body> | undefined
  /** The response's schema, a JSON value. A result that it rejects is not sent: the caller gets 500, and `onError` the reason. */
  readonly response: StandardSchema<Result, unknown>
  /** For a GET that lists records by `readPage` and `page`: the pattern of the records' ids, `/^bkg_\d+$/`. Default: no list. */
  readonly paged?: RegExp | undefined
  /**
   * False for a method other than GET that cannot be repeated: an `Idempotency-Key` is rejected with 422. Default `true`: `handle` returns
   * the reply of `platform.using(tx).idempotent(…)`.
   */
  readonly idempotent?: boolean | undefined
  /** The errors that `handle` throws, by status, for the document: `{ 409: 'The room is taken.' }`. Default: those of every operation. */
  readonly errors?: Readonly<Record<number, string>> | undefined
  /**
   * Does the work of an admitted and checked request.
   *
   * @returns a value by `response`, or the reply of `page` or `idempotent`
   * @throws `Refusal` for a response of another status; anything else is a 500 without detail
   */
  handle(
    context: RouteContext<ParamsOf<Path>, Query, Body>,
  ): Answer<NoInfer<Result>> | Promise<Answer<NoInfer<Result>>>
}

/** The parameters of a path. */
type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [Key in Name]: string } & ParamsOf<Rest>
  : unknown

type Answer<Result> = Result | RouteReply<Result>

/** A service that has its own routes. */
export interface RouteOwner extends ScopeOwner {
  /** The host's own routes. */
  readonly routes: readonly Route[]
}

// --- Definition ---

/** The path of every operation begins with it. */
export const API_PATH = '/api/v1'

function must<Value>(is: (value: never) => boolean, requirement: string) {
  return v.custom<Value>((value) => is(value as never), requirement)
}

const LINE = must<string>((text) => /^\P{C}{1,100}$/u.test(text), 'must be a string of 1 to 100 characters')
const SCHEMA = must<StandardSchema>(
  isStandardSchema,
  'must be a schema: of valibot, or another Standard Schema',
)
const PATH = /^(?!\/api\/v1\/)(?!.*(\{\w+\}).*\1)(?:\/(?:(?!\.{1,2}(?:\/|$))[\w.-]+|\{[A-Za-z]\w{0,39}\}))+$/
/** A name that generators make a method of. `onBookingCreated` is the name of a webhook. */
const OPERATION_ID = /^(?!on[A-Z])[a-z][A-Za-z0-9]{0,63}$/

const RouteDefinition = v.object({
  method: v.picklist(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], 'must be GET, POST, PUT, PATCH or DELETE'),
  path: must<string>(
    (path) => PATH.test(path),
    "must be below /api/v1 and like '/bookings/{bookingId}', each parameter once",
  ),
  operationId: must<string>(
    (id) => OPERATION_ID.test(id),
    "must be a name like 'createBooking', and none like 'onBooking'",
  ),
  summary: LINE,
  description: v.optional(v.string()),
  tag: LINE,
  scope: v.string(),
  query: v.optional(SCHEMA),
  body: v.optional(SCHEMA),
  response: SCHEMA,
  paged: v.optional(v.instance(RegExp)),
  idempotent: v.optional(v.boolean()),
  errors: v.optional(must<object>(isErrors, 'must be descriptions by status, from 400 to 599')),
  handle: v.function(),
})

/**
 * Defines a route of the host's own, for `defineService({ routes: […] })`. The library admits the request, checks its input and writes
 * the reply, as for its own operations. Give a constant the type `Route` where `handle` uses a platform whose type follows from the
 * service: the compiler would go in circles.
 *
 * @throws `BusinessApiError` with code `invalid_input`, or `TypeError`, for a declaration that cannot be used
 * @example
 * ```ts
 * const getBooking: Route = defineRoute({
 *   method: 'GET', path: '/bookings/{bookingId}', operationId: 'getBooking', summary: 'Get a booking', tag: 'Bookings',
 *   scope: 'bookings:read',
 *   response: v.object({ data: v.object({ id: v.string() }) }),
 *   async handle({ organizationId, input: { params } }) {
 *     const [booking] = await sql<{ id: string }[]>`
 *       select id from bookings where organization_id = ${organizationId} and id = ${params.bookingId}`
 *     if (!booking) throw new Refusal(404, 'No such booking')
 *     return { data: booking }
 *   },
 * })
 * ```
 */
export function defineRoute<const Path extends string, Query = undefined, Body = undefined, Result = unknown>(
  route: Route<Path, Query, Body, Result>,
): Route {
  read(RouteDefinition, route, `Cannot define route ${String(route?.operationId).slice(0, 64)}`)
  const { method, paged } = route
  const misfit = method === 'GET' ? 'body' : 'paged'
  if (route[misfit])
    throw new TypeError(`Cannot define route ${route.operationId} because a ${method} has no '${misfit}'`)
  // Without the flags that remember the place of the last match.
  const pattern = paged && { paged: new RegExp(paged, paged.flags.replace(/[gy]/g, '')) }
  return Object.freeze({ ...route, ...pattern }) as Route
}

function isErrors(errors: object): boolean {
  return isPlain(errors) && Object.keys(errors).every((status) => /^[45]\d\d$/.test(status))
}

/** Returns whether a route takes an Idempotency-Key. */
export function isIdempotent({ method, idempotent = true }: Route): boolean {
  return method !== 'GET' && idempotent
}

/**
 * Reads the option `routes` of a service. A route with fewer parameters comes first: it may match the paths of another.
 *
 * @throws `TypeError` for no list, for two routes of the same operation, and for a scope that the service does not have
 */
export function readRoutes(given: readonly Route[] = [], owner: ScopeOwner): readonly Route[] {
  if (!Array.isArray(given))
    throw new TypeError("Cannot use option 'routes' because it must be a list of routes")
  const routes = given.map((route: Route) => defineRoute(route))
  for (const { operationId, scope } of routes) {
    if (scopesOf(owner).includes(scope)) continue
    throw new TypeError(
      `Cannot use route ${operationId} because neither the library nor option 'scopes' has ${scope}`,
    )
  }
  rejectTaken([], routes)
  return Object.freeze(routes.sort((one, other) => paramsOf(one.path).length - paramsOf(other.path).length))
}

/** Lists the names of a path's parameters. */
export function paramsOf(path: string): readonly string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

/**
 * Rejects routes that an operation, or another route, has the path or the name of.
 *
 * @throws `TypeError`
 */
export function rejectTaken(
  operations: readonly { readonly path: string; readonly operationId: string }[],
  routes: readonly Route[],
): void {
  const taken = new Set(operations.flatMap(({ path, operationId }) => [path, operationId]))
  const paths = new Map<string, string>()
  for (const { method, path, operationId } of routes) {
    const shape = path.replace(/\{\w+\}/g, '{}')
    const same = paths.get(shape) ?? path
    const all = [operationId, API_PATH + path, `${method} ${API_PATH}${path}`]
    // Parameters of other names match the same paths.
    const found = same === path ? all.find((name) => taken.has(name)) : API_PATH + same
    if (found !== undefined)
      throw new TypeError(`Cannot use route ${operationId} because ${found} exists already`)
    paths.set(shape, path)
    taken.add(operationId).add(all[2] ?? '')
  }
}
