import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit, type RateLimits } from '../access/rate-limit.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import {
  flag,
  isPlain,
  type Names,
  type OptionReaders,
  type ReadBy,
  readEach,
  readFunction,
  readLogger,
  rejectUnknown,
  whole,
} from '../base/options.ts'
import { type CurrentTraceparent, createTraceparentReader } from '../base/traceparent.ts'
import type { ErrorContext } from '../http/report.ts'
import type { ApiInfo } from '../openapi/info.ts'
import type { Service } from '../service.ts'
import type { OnRequest, OnResponse } from './hooks.ts'
import type { PeerRequest } from './peer-address.ts'
import type { RequestLogChoice } from './request-log.ts'

/** The rate limits of requests (specification, section 8). */
export interface RateLimitOptions {
  /** The limit of each API key. Default 10 per second, burst 100. */
  key?: RateLimit | undefined
  /** The limit of each organization, all keys together. Default 20 per second, burst 200. */
  organization?: RateLimit | undefined
  /**
   * The place of the buckets. `shared`: in the store, for all processes together. `process`: in the memory of each process,
   * cheaper, but every process admits the full rate. Limits of a single key or organization count with `shared` only.
   * Default `shared`.
   */
  scope?: 'shared' | 'process' | undefined
}

/** Options of `createBusinessApi`. Each is read once. */
export interface BusinessApiOptions {
  /**
   * The path of the mount, if the host passes full paths: `/platform`. Express strips the mount path: under Express, leave
   * the option out, or give the full path. Default none.
   */
  basePath?: string | undefined
  /**
   * Serves each path with a slash at its end too, as Next.js with `trailingSlash: true` passes paths. Default `false`: such a path is
   * another path.
   */
  trailingSlash?: boolean | undefined
  /** The version, contact, licence and terms in the OpenAPI document. Default: neutral words. */
  info?: ApiInfo | undefined
  /** Largest request body in bytes. Default 65536. */
  maxBodyBytes?: number | undefined
  /** Milliseconds until every unfinished request is answered with 503. Default 5000. */
  deadlineMs?: number | undefined
  /** The rate limits; `false` turns rate limits off. */
  rateLimit?: RateLimitOptions | false | undefined
  /**
   * Returns the address of a caller behind a proxy: `({ header }) => header('x-real-ip')`, a header that the proxy always
   * sets. Requests without a valid API key take turns by this address, IPv6 by the first 64 bits, and the hooks receive the
   * address; nothing else depends on the address. Default the socket's remote address.
   */
  peerAddress?: ((request: PeerRequest) => string | undefined) | undefined
  /** pino, or a logger with the same call form. `false` mutes. Default: warnings and errors to stderr. */
  logger?: Logger | false | undefined
  /** Receives every failure behind an answer of 500 or 503, with all details. Errors and rejections of the function are logged and dropped. */
  onError?: ((error: unknown, context: ErrorContext) => void) | undefined
  /**
   * Judges each request of a valid API key within its limits and scope, before the body is read: a `Refusal`, returned or thrown,
   * refuses the request, and nothing is written. May be asynchronous, within `deadlineMs` (503 afterwards). Another error
   * is answered with 500, of code `store_unavailable` with 503, and reported to `onError`. Default: every request goes on.
   */
  onRequest?: OnRequest | undefined
  /**
   * Receives every answer of the API, also 401, 404, 429 and 503, for metering and audit. Called when the answer is on the
   * way, which waits for nothing. Errors and rejections are logged and reported to `onError`.
   */
  onResponse?: OnResponse | undefined
  /**
   * Keeps a log of the requests with an organization's key, for `settings.requests`: `'all'`, `'errors'` (400 and above), or
   * `{ share: 0.1 }`, errors and a share of the others. It holds no query, no body and no key. Default `false`: none.
   */
  requestLog?: RequestLogChoice | false | undefined
  /** Milliseconds since 1970 in UTC, for ids and timestamps of records; expiry is judged by the clock of the store. Default `Date.now`. */
  clock?: Clock | undefined
  /**
   * Makes the ids of records, events and requests. An id is its kind, `_`, and 1 to 59 letters, digits, hyphens and underscores,
   * because the pages of a list continue after such ids only; a request that would make another id is answered with 500, and the
   * reason goes to `onError`. Later ids must sort after earlier ones. Default monotonic ULIDs.
   */
  ids?: Ids | undefined
  /**
   * Returns the W3C `traceparent` of the current trace, for the events of a create: the attempts of webhooks show the trace as
   * `AttemptTrace.traceparent`. A value in another form, and an error of the function, count as no trace. Default the header
   * `traceparent` of the request.
   */
  traceparent?: CurrentTraceparent | undefined
}

const KEY_LIMIT: RateLimit = { perSecond: 10, burst: 100 }
const ORGANIZATION_LIMIT: RateLimit = { perSecond: 20, burst: 200 }

const RATE_LIMIT_NAMES: Names<RateLimitOptions> = { key: true, organization: true, scope: true }

const READERS = {
  basePath: readBasePath,
  trailingSlash: flag(),
  info: readInfo,
  maxBodyBytes: whole(65_536),
  deadlineMs: whole(5000),
  rateLimit: readRateLimits,
  peerAddress: (given, name): NonNullable<BusinessApiOptions['peerAddress']> =>
    readFunction(name, given) ?? (({ remoteAddress }) => remoteAddress),
  logger: (given) => readLogger(given),
  onError: (given, name): NonNullable<BusinessApiOptions['onError']> =>
    readFunction(name, given) ?? (() => {}),
  onRequest: (given, name) => readFunction(name, given),
  onResponse: (given, name) => readFunction(name, given),
  requestLog: readRequestLog,
  clock: (given = Date.now) => given,
  ids: (given) => given,
  /** Undefined: the request's header counts. */
  traceparent: (given) => given && createTraceparentReader(given),
} satisfies OptionReaders<BusinessApiOptions>

/** The checked options with the defaults filled in, and the service of the store. */
export interface ResolvedOptions
  extends Service,
    Omit<ReadBy<typeof READERS>, 'rateLimit' | 'ids'>,
    ReturnType<typeof readRateLimits> {
  readonly ids: Ids
}

/**
 * @throws `TypeError` or `RangeError` naming the option that cannot be used
 */
export function readOptions(options: BusinessApiOptions, service: Service): ResolvedOptions {
  const { rateLimit, ids, ...read } = readEach(options, READERS)
  return { ...service, ...read, ...rateLimit, ids: readIds(ids, read.clock) }
}

function readInfo(info: ApiInfo = {}): ApiInfo {
  rejectUnknown(info, { version: true, contact: true, license: true, termsOfService: true }, 'info.')
  rejectUnknown(info.contact ?? {}, { name: true, url: true, email: true }, 'info.contact.')
  rejectUnknown(info.license ?? { name: '' }, { name: true, url: true, identifier: true }, 'info.license.')
  return info
}

function readBasePath(basePath: string | undefined): string {
  const path = basePath?.replace(/\/+$/, '') ?? ''
  if (path !== '' && !/^(\/[A-Za-z0-9._~-]+)+$/.test(path)) {
    throw new TypeError(
      `Cannot use option 'basePath' because it is not a path like '/platform': current value is '${path}'`,
    )
  }
  return path
}

function readScope(scope: 'shared' | 'process' = 'shared'): 'shared' | 'process' {
  if (scope !== 'shared' && scope !== 'process') {
    throw new TypeError(
      `Cannot use option 'rateLimit.scope' because it must be 'shared' or 'process': current value is '${scope}'`,
    )
  }
  return scope
}

function readRequestLog(choice: RequestLogChoice | false = false): RequestLogChoice | null {
  if (choice === false || choice === 'all' || choice === 'errors') return choice || null
  if (isPlain(choice)) rejectUnknown(choice, { share: true }, 'requestLog.')
  if (choice?.share >= 0 && choice.share <= 1) return choice
  throw new TypeError(
    "Cannot use option 'requestLog' because it must be false, 'all', 'errors', or { share } from 0 to 1",
  )
}

function readRateLimits(given: RateLimitOptions | false = {}): {
  readonly rateLimits: RateLimits | null
  readonly rateLimitScope: 'shared' | 'process'
} {
  if (given === false) return { rateLimits: null, rateLimitScope: 'shared' }
  rejectUnknown(given, RATE_LIMIT_NAMES, 'rateLimit.')
  const { key = KEY_LIMIT, organization = ORGANIZATION_LIMIT, scope } = given
  const rateLimits = {
    key: readRateLimit('key', key),
    organization: readRateLimit('organization', organization),
  }
  return { rateLimits, rateLimitScope: readScope(scope) }
}

function readRateLimit(name: string, limit: RateLimit): RateLimit {
  rejectUnknown(limit, { perSecond: true, burst: true }, `rateLimit.${name}.`)
  if (!isRateLimit(limit)) {
    throw new RangeError(
      `Cannot use option 'rateLimit.${name}' because it must be ${RATE_LIMIT_REQUIREMENT}: ` +
        `current value is ${JSON.stringify(limit)}`,
    )
  }
  return limit
}
