import { type KeyScope, type OwnScope, scopesOf } from '../access/scopes.ts'
import { isPlain, type Names, rejectUnknown } from '../base/options.ts'
import { isStandardSchema, type StandardSchema } from '../base/standard-schema.ts'
import type { RouteContext, RouteReply } from './own-replies.ts'

// The routes of a host beside the library's operations. They live in the service, and everything that knows operations takes them from there.

// --- Types ---

/** The method of a route. */
export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * A schema of a route: of valibot, of another library with Standard JSON Schema, or any Standard Schema with its JSON Schema (draft
 * 2020-12) beside it, for the document.
 */
export type RouteSchema<Input = unknown, Output = Input> =
  | StandardSchema<Input, Output>
  | { readonly schema: StandardSchema<Input, Output>; readonly jsonSchema: object }

/** A route of the host's own, as {@link defineRoute} returns it. */
export interface Route {
  readonly method: RouteMethod
  /** Below `/api/v1`: `/bookings/{bookingId}`. The names in braces are parameters, of letters, digits, `.`, `_` and `-`. */
  readonly path: string
  /** The name of the operation in the document, in hooks and traces: `createBooking`. */
  readonly operationId: string
  /** A line for lists of operations: `Create a booking`. */
  readonly summary: string
  /** What the operation does beyond the summary. Default: nothing more. */
  readonly description?: string | undefined
  /** The group of the operation in the document: `Bookings`. */
  readonly tag: string
  /** The scope that a key needs: one of the library's, or of the service's `scopes`. */
  readonly scope: KeyScope
  /** The schema of the query, whose values are texts, or lists of texts for a repeated name. Default: the query is ignored. */
  readonly query?: RouteSchema | undefined
  /** The schema of the JSON body. Default: no body is read. Not with GET and DELETE. */
  readonly body?: RouteSchema | undefined
  /** The schema of the answer, a value of JSON. A result that it rejects is not sent: the caller gets 500, and `onError` the reason. */
  readonly response: RouteSchema
  /**
   * True for a GET that lists records page by page, by `readPage` and `page`. `{ before }`: the same, with the pattern of the records'
   * ids, as in JSON Schema. Default `false`; the pattern of `true` is that of 1 to 64 letters, digits, `_` and `-`.
   */
  readonly paged?: boolean | { readonly before: string } | undefined
  /**
   * False for a method other than GET that cannot be repeated: an `Idempotency-Key` is rejected with 422. Default `true`: the result must
   * be that of `platform.using(tx).idempotent(…)`.
   */
  readonly idempotent?: boolean | undefined
  /** The errors that `handle` throws, by status, for the document: `{ 409: 'The room is taken.' }`. Default: those of every operation. */
  readonly errors?: Readonly<Record<number, string>> | undefined
  /** Does the work of an admitted and checked request. */
  handle(context: RouteContext): unknown
}

/** The parameters of a path. */
type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [Key in Name]: string } & ParamsOf<Rest>
  : unknown

/** The checked input of a request. */
export interface RouteInput<Params, Query, Body> {
  /** The parameters of the path, as texts. */
  readonly params: Params
  readonly query: Query
  readonly body: Body
}

/** What a route declares, with the types that follow from its schemas. */
export interface RouteOptions<Path extends string, Query, Body, Result> extends Omit<Route, 'handle'> {
  readonly path: Path
  readonly scope: OwnScope
  readonly query?: RouteSchema<unknown, Query> | undefined
  readonly body?: RouteSchema<unknown, Body> | undefined
  readonly response: RouteSchema<Result, unknown>
  /**
   * Does the work of an admitted and checked request.
   *
   * @returns a value by `response`, or the reply of `page` or `idempotent`
   * @throws `Refusal` for an answer of another status; anything else is a 500 without detail
   */
  handle(
    context: RouteContext<RouteInput<ParamsOf<Path>, Query, Body>>,
  ): Answer<NoInfer<Result>> | Promise<Answer<NoInfer<Result>>>
}

type Answer<Result> = Result | RouteReply<Result>

// --- Definition ---

/** The path of every operation begins with it. */
export const API_PATH = '/api/v1'

const NAMES: Names<Route> = {
  method: true,
  path: true,
  operationId: true,
  summary: true,
  description: true,
  tag: true,
  scope: true,
  query: true,
  body: true,
  response: true,
  paged: true,
  idempotent: true,
  errors: true,
  handle: true,
}

const METHODS: readonly RouteMethod[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
const PATH = /^(?:\/(?:(?!\.{1,2}(?:\/|$))[\w.-]+|\{[A-Za-z]\w{0,39}\}))+$/
/** A name that generators make a method of. `onBookingCreated` is the name of a webhook. */
const OPERATION_ID = /^(?!on[A-Z])[a-z][A-Za-z0-9]{0,63}$/
const LINE = /^\P{C}{1,100}$/u

/**
 * Defines a route of the host's own, for `defineService({ routes: […] })`. The library admits the request, checks its input and writes
 * the reply, as for its own operations.
 *
 * Give a constant the type `Route` where `handle` uses a platform whose type follows from the service: the compiler would go in circles.
 *
 * @throws `TypeError` for a declaration that cannot be used
 * @example
 * ```ts
 * const getBooking: Route = defineRoute({
 *   method: 'GET',
 *   path: '/bookings/{bookingId}',
 *   operationId: 'getBooking',
 *   summary: 'Get a booking',
 *   tag: 'Bookings',
 *   scope: 'bookings:read',
 *   response: v.object({ data: BookingSchema }),
 *   async handle({ organizationId, input }) {
 *     const booking = await findBooking(organizationId, input.params.bookingId)
 *     if (!booking) throw new Refusal(404, 'No such booking')
 *     return { data: booking }
 *   },
 * })
 * ```
 */
export function defineRoute<const Path extends string, Query = undefined, Body = undefined, Result = unknown>(
  route: RouteOptions<Path, Query, Body, Result>,
): Route {
  rejectUnknown(route as Route, NAMES)
  const reason = faultOf(route as Route)
  if (reason !== null)
    throw new TypeError(`Cannot define route '${String(route.operationId).slice(0, 64)}' because ${reason}`)
  return Object.freeze({ ...route }) as Route
}

function faultOf(route: Route): string | null {
  const { method, path, operationId, summary, tag, paged, errors = {} } = route
  const isRead = method === 'GET'
  const names = paramsOf(path)
  const rules: readonly (readonly [boolean, string])[] = [
    [METHODS.includes(method), `its method must be one of ${METHODS.join(', ')}`],
    [typeof path === 'string' && PATH.test(path), "its path must be like '/bookings/{bookingId}'"],
    [!`${path}/`.startsWith(`${API_PATH}/`), `its path is below ${API_PATH} already`],
    [new Set(names).size === names.length, 'its path has a parameter twice'],
    [
      OPERATION_ID.test(operationId),
      "its operationId must be a name like 'createBooking', and none like 'onBooking'",
    ],
    [LINE.test(summary) && LINE.test(tag), 'its summary and tag must be texts of 1 to 100 characters'],
    [
      route.description === undefined || typeof route.description === 'string',
      'its description must be a text',
    ],
    [route.body === undefined || !(isRead || method === 'DELETE'), `${method} has no body`],
    [!paged || isRead, 'only a GET lists records page by page'],
    [
      typeof paged !== 'object' || isPattern(paged.before),
      "its 'paged' must be true or { before: a pattern }",
    ],
    [route.idempotent === undefined || !isRead, 'a GET takes no Idempotency-Key'],
    [
      isPlain(errors) && Object.keys(errors).every(isErrorStatus),
      'its errors must be texts by a status from 400 to 599',
    ],
    [typeof route.handle === 'function', 'it has no function handle'],
    ...(['query', 'body', 'response'] as const).map((name): readonly [boolean, string] => [
      (name !== 'response' && route[name] === undefined) || isRouteSchema(route[name]),
      `its '${name}' must be a schema of valibot, or { schema, jsonSchema } of another library`,
    ]),
  ]
  return rules.find(([isRight]) => !isRight)?.[1] ?? null
}

/** Lists the names of a path's parameters. */
export function paramsOf(path: string): readonly string[] {
  return [...String(path).matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

function isPattern(pattern: unknown): boolean {
  try {
    return typeof pattern === 'string' && new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Returns whether a status is that of an error. */
export function isErrorStatus(status: unknown): boolean {
  return Number.isInteger(Number(status)) && Number(status) >= 400 && Number(status) <= 599
}

function isRouteSchema(given: RouteSchema | undefined): boolean {
  const { schema, jsonSchema } = partsOf(given)
  if (!isStandardSchema(schema)) return false
  const { vendor, jsonSchema: own } = schema['~standard']
  return jsonSchema === undefined ? vendor === 'valibot' || own !== undefined : isPlain(jsonSchema)
}

/** Separates a schema from the JSON Schema that the host has given beside it. */
export function partsOf(given: RouteSchema | undefined): {
  readonly schema: StandardSchema
  readonly jsonSchema?: object
} {
  return isStandardSchema(given) ? { schema: given } : Object(given)
}

const ROUTES_MAX = 200

/**
 * Reads the option `routes` of a service.
 *
 * @throws `TypeError` for a definition that cannot be used, for two of the same operation, and for a scope that the service does not have
 */
export function readRoutes(
  given: readonly Route[] | undefined,
  scopes: readonly OwnScope[],
): readonly Route[] {
  if (given === undefined) return []
  if (!Array.isArray(given) || given.length > ROUTES_MAX)
    throw new TypeError(
      `Cannot use option 'routes' because it must be a list of at most ${ROUTES_MAX} routes`,
    )
  const routes = given.map((route: Route) => defineRoute(route as never))
  const known = scopesOf({ scopes })
  rejectTaken(routes, new Set(), new Set())
  for (const { operationId, scope } of routes) {
    if (known.includes(scope)) continue
    throw new TypeError(
      `Cannot use route '${operationId}' because its scope '${scope}' is neither the library's nor one of option 'scopes'`,
    )
  }
  return Object.freeze(routes)
}

/**
 * Rejects routes of which an operation has the path or the name.
 *
 * @param paths of operations, whole
 * @throws `TypeError`
 */
export function rejectTaken(
  routes: readonly Route[],
  paths: ReadonlySet<string>,
  operationIds: ReadonlySet<string>,
): void {
  const taken = new Set<string>(operationIds)
  for (const { method, path, operationId } of routes) {
    const refuse = (what: string): never => {
      throw new TypeError(`Cannot use route '${operationId}' because ${what} exists already`)
    }
    if (taken.has(operationId)) refuse(`operation '${operationId}'`)
    if (paths.has(API_PATH + path)) refuse(`path ${API_PATH}${path}`)
    // Parameters of other names match the same paths.
    const operation = `${method} ${path.replace(/\{\w+\}/g, '{}')}`
    if (taken.has(operation)) refuse(`${method} ${path}`)
    taken.add(operation).add(operationId)
  }
}
