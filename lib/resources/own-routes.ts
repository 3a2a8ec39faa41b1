import * as v from 'valibot'
import { type KeyScope, type ScopeOwner, scopesOf } from '../access/scopes.ts'
import { read } from '../base/host-input.ts'
import { isMatching, isPlain, printValue } from '../base/options.ts'
import { isStandardSchema, type StandardSchema } from '../base/standard-schema.ts'
import type { RouteContext, RouteReply } from './own-replies.ts'

// Routes defined by the host in addition to the library's operations. All code gets these routes from the service.

// --- Types ---

/**
 * One of the host's routes, created with {@link defineRoute}.
 *
 * @typeParam Path parameters in braces become `params`
 * @typeParam Query the `query` schema's output type
 * @typeParam Body the `body` schema's output type
 * @typeParam Result the `response` schema's input type
 */
export interface Route<Path extends string = string, Query = unknown, Body = unknown, Result = unknown> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /**
   * The path below `/api/v1`, for example `/bookings/{bookingId}`. Names in braces are parameters, whose values can
   * contain letters, digits, `.`, `_` and `-`.
   */
  readonly path: Path
  /** The operation's name in the OpenAPI document, hooks and traces, for example `createBooking`. */
  readonly operationId: string
  /** A one-line summary for lists of operations, for example `Create a booking`. */
  readonly summary: string
  /** A longer description. None by default. */
  readonly description?: string | undefined
  /** The operation's group in the OpenAPI document, for example `Bookings`. */
  readonly tag: string
  /** The required scope, either built in or one of the service's `scopes`. */
  readonly scope: KeyScope
  /** Schema for the query. Values are strings, or arrays if a name is repeated. By default, the query is ignored. */
  readonly query?: StandardSchema<unknown, Query> | undefined
  /** Schema for the JSON body. By default, no body is read. Not allowed for GET. */
  readonly body?: StandardSchema<unknown, Body> | undefined
  /**
   * Schema for the response, which must be valid JSON. A result that doesn't match isn't sent. The caller gets a 500,
   * and `onError` gets the reason.
   */
  readonly response: StandardSchema<Result, unknown>
  /**
   * For a GET route that lists records using `readPage` and `page`: the pattern for record ids, for example
   * `/^bkg_\d+$/`. By default, the route isn't a list.
   */
  readonly paged?: RegExp | undefined
  /**
   * Set to `false` if a non-GET route can't be repeated. Requests with an `Idempotency-Key` are then rejected with a
   * 422. Defaults to `true`, which requires `handle` to return the reply from `platform.using(tx).idempotent(…)`.
   */
  readonly idempotent?: boolean | undefined
  /**
   * The errors that `handle` throws, by status, for the OpenAPI document, for example `{ 409: 'The room is taken.' }`.
   * Defaults to the errors that all operations have.
   */
  readonly errors?: Readonly<Record<number, string>> | undefined
  /**
   * Handles an admitted and validated request.
   *
   * @returns a value that matches `response`, or the reply from `page` or `idempotent`
   * @throws `Refusal` to respond with another status. Any other error results in a 500 without details
   */
  handle(
    context: RouteContext<ParamsOf<Path>, Query, Body>,
  ): Answer<NoInfer<Result>> | Promise<Answer<NoInfer<Result>>>
}

type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [Key in Name]: string } & ParamsOf<Rest>
  : unknown

type Answer<Result> = Result | RouteReply<Result>

/** A service with the host's routes. */
export interface RouteOwner extends ScopeOwner {
  /** Routes defined by the host. */
  readonly routes: readonly Route[]
}

// --- Definition ---

/** The path prefix for all operations. */
export const API_PATH = '/api/v1'

function must<Value>(is: (value: never) => boolean, requirement: string) {
  return v.custom<Value>((value) => is(value as never), requirement)
}

const LINE = must<string>(
  (text) => isMatching(text, /^\P{C}{1,100}$/u),
  'must be a string of 1 to 100 characters',
)
const SCHEMA = must<StandardSchema>(
  isStandardSchema,
  'must be a schema: of valibot, or another Standard Schema',
)
const PATH = /^(?!\/api\/v1\/)(?!.*(\{\w+\}).*\1)(?:\/(?:(?!\.{1,2}(?:\/|$))[\w.-]+|\{[A-Za-z]\w{0,39}\}))+$/
/** Matches a name that generators can use for a method. Names like `onBookingCreated` are taken by webhooks. */
const OPERATION_ID = /^(?!on[A-Z])[a-z][A-Za-z0-9]{0,63}$/

const RouteDefinition = v.object({
  method: v.picklist(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], 'must be GET, POST, PUT, PATCH or DELETE'),
  path: must<string>(
    (path) => isMatching(path, PATH),
    "must be below /api/v1 and like '/bookings/{bookingId}', each parameter once",
  ),
  operationId: must<string>(
    (id) => isMatching(id, OPERATION_ID),
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
 * Defines a route for `defineService({ routes: […] })`. The library admits the request, validates the input and sends
 * the response, just like for built-in operations. If `handle` uses a platform whose type depends on the service,
 * annotate the constant with `Route`. Otherwise the types would be circular.
 *
 * @throws `TypeError` if the definition is invalid
 *
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
  const { operationId } = Object(route)
  const name = typeof operationId === 'string' ? operationId.slice(0, 64) : printValue(operationId)
  try {
    read(RouteDefinition, route, `Cannot define route ${name}`)
  } catch (error) {
    throw new TypeError((error as Error).message)
  }
  const { method, paged } = route
  const misfit = method === 'GET' ? 'body' : 'paged'
  if (route[misfit])
    throw new TypeError(`Cannot define route ${route.operationId} because a ${method} has no '${misfit}'`)
  // Drop the flags that would make the regular expression stateful.
  const pattern = paged && { paged: new RegExp(paged, paged.flags.replace(/[gy]/g, '')) }
  return Object.freeze({ ...route, ...pattern }) as Route
}

function isErrors(errors: object): boolean {
  return isPlain(errors) && Object.keys(errors).every((status) => /^[45]\d\d$/.test(status))
}

/** Returns `true` if a route supports Idempotency-Key. */
export function isIdempotent({ method, idempotent = true }: Route): boolean {
  return method !== 'GET' && idempotent
}

/**
 * Reads a service's `routes` option. More specific routes come first (the ones with fewer parameters).
 *
 * @throws `TypeError` if it isn't a list, two routes are the same operation, or the service doesn't have a scope
 */
export function readRoutes(given: readonly Route[] = [], owner: ScopeOwner): readonly Route[] {
  if (!Array.isArray(given)) throw new TypeError("Option 'routes' must be a list of routes")
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

/** Returns a path's parameter names. */
export function paramsOf(path: string): readonly string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

/**
 * Rejects routes whose path or name is already taken by an operation or another route.
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
    // Paths that only differ in their parameter names are the same.
    const found = same === path ? all.find((name) => taken.has(name)) : API_PATH + same
    if (found !== undefined)
      throw new TypeError(`Cannot use route ${operationId} because ${found} exists already`)
    paths.set(shape, path)
    taken.add(operationId).add(all[2] ?? '')
  }
}
