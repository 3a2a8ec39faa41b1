import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit, type RateLimits } from '../access/rate-limit.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import {
  flag,
  isPlain,
  type OptionReaders,
  printValue,
  type ReadBy,
  readEach,
  readFunction,
  readLogger,
  readPath,
  readTexts,
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

/** The rate limits (see section 8 of the spec). */
export interface RateLimitOptions {
  /** Limit per API key. Defaults to 10 requests per second with bursts of 100. */
  key?: RateLimit | undefined
  /** Limit shared by all the organization's keys. Defaults to 20 requests per second with bursts of 200. */
  organization?: RateLimit | undefined
  /**
   * Where to keep the buckets. `shared` keeps them in the store, for all processes. `process` is faster because it uses
   * memory, but each process allows the full rate, and custom limits aren't supported. Defaults to `shared`.
   */
  scope?: 'shared' | 'process' | undefined
}

/** Options for `createBusinessApi`. Only read once. */
export interface BusinessApiOptions {
  /**
   * The mount path, if the handler receives full paths, for example `/platform`. You don't need this in Express, which
   * strips the mount path, but it's fine to pass the full path there. No mount path by default.
   */
  basePath?: string | undefined
  /**
   * If `true`, each path also works with a trailing slash. Next.js needs this with `trailingSlash: true`.
   * Defaults to `false`.
   */
  trailingSlash?: boolean | undefined
  /** The version, contact, license and terms in the OpenAPI document. Defaults to neutral values. */
  info?: ApiInfo | undefined
  /** Maximum request body size in bytes. Defaults to 65536. */
  maxBodyBytes?: number | undefined
  /** Request timeout in milliseconds. Requests that take longer get a 503. Defaults to 5000. */
  deadlineMs?: number | undefined
  /** The rate limits. Set to `false` to disable rate limiting. */
  rateLimit?: RateLimitOptions | false | undefined
  /**
   * Returns the caller's address if you're behind a proxy, for example `({ header }) => header('x-real-ip')`. Only use
   * a header that your proxy always sets. The address is passed to your hooks and used to take turns fairly between
   * requests without a valid API key (first 64 bits for IPv6). Nothing else uses it. Defaults to the socket's address.
   */
  peerAddress?: ((request: PeerRequest) => string | undefined) | undefined
  /** pino or a compatible logger. `false` disables logging. By default, warnings and errors go to stderr. */
  logger?: Logger | false | undefined
  /** Called with full details when a request fails with a 500 or 503. Errors it throws are logged and ignored. */
  onError?: ((error: unknown, context: ErrorContext) => void) | undefined
  /**
   * Called before reading the body of a request that has a valid API key with the required scope and is within the rate
   * limits. Return or throw a `Refusal` to reject the request without writing anything. Can be async, but results in a
   * 503 after `deadlineMs`. Any other error results in a 500 (or a 503 with code `store_unavailable`) and is reported
   * to `onError`. By default, all requests are allowed.
   */
  onRequest?: OnRequest | undefined
  /**
   * Called for every response, including 401, 404, 429 and 503, for example to meter usage. The response is already
   * being sent and doesn't wait for this function. Errors and rejections are logged and reported to `onError`.
   */
  onResponse?: OnResponse | undefined
  /**
   * Requests to log for `settings.requests`: `'all'`, `'errors'` (400 and up), or `{ share: 0.1 }` for all errors and a
   * tenth of the others. Requests without an organization's key aren't logged. The query string, body and key are never
   * logged. Defaults to `false`.
   */
  requestLog?: RequestLogChoice | false | undefined
  /** Returns milliseconds since 1970, for ids and timestamps. Expiry uses the store's clock. Defaults to `Date.now`. */
  clock?: Clock | undefined
  /**
   * Generates ids for records, events and requests. An id must be the kind, `_`, then 1 to 59 letters, digits, hyphens
   * or underscores, because pagination doesn't support anything else. Invalid ids result in a 500 and are reported to
   * `onError`. New ids must sort after older ones. Defaults to monotonic ULIDs.
   */
  ids?: Ids | undefined
  /**
   * Returns the current trace as a W3C `traceparent`, which is stored with events from create operations and exposed to
   * attempts as `AttemptTrace.traceparent`. Ignores errors and invalid values. Defaults to the request header.
   */
  traceparent?: CurrentTraceparent | undefined
}

const KEY_LIMIT: RateLimit = { perSecond: 10, burst: 100 }
const ORGANIZATION_LIMIT: RateLimit = { perSecond: 20, burst: 200 }

const READERS = {
  basePath: (given) => readPath('basePath', given, '/platform') ?? '',
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
  /** `undefined` to use the request's header. */
  traceparent: (given) => (given === undefined ? given : createTraceparentReader(given)),
} satisfies OptionReaders<BusinessApiOptions>

/** The validated options with defaults filled in, and the store's service. */
export interface ResolvedOptions
  extends Service,
    Omit<ReadBy<typeof READERS>, 'rateLimit' | 'ids'>,
    ReturnType<typeof readRateLimits> {
  readonly ids: Ids
}

/** Validates the options and fills in defaults. @throws `TypeError` or `RangeError` naming the invalid option */
export function readOptions(options: BusinessApiOptions, service: Service): ResolvedOptions {
  const { rateLimit, ids, ...read } = readEach(options, READERS)
  return { ...service, ...read, ...rateLimit, ids: readIds(ids, read.clock) }
}

function readInfo(info: ApiInfo = {}): ApiInfo {
  rejectUnknown(info, { version: true, contact: true, license: true, termsOfService: true }, 'info.')
  const { contact, license, ...texts } = info
  readTexts(texts, { version: true, termsOfService: true }, 'info.')
  readTexts(contact, { name: true, url: true, email: true }, 'info.contact.')
  readTexts(license, { name: true, url: true, identifier: true }, 'info.license.')
  if (license && license.name === undefined) throw new TypeError("Option 'info.license.name' must be given")
  return info
}

function readScope(scope: 'shared' | 'process' = 'shared'): 'shared' | 'process' {
  if (scope !== 'shared' && scope !== 'process') {
    const text = `current value is ${printValue(scope)}`
    throw new TypeError(`Option 'rateLimit.scope' must be 'shared' or 'process': ${text}`)
  }
  return scope
}

function readRequestLog(choice: RequestLogChoice | false = false): RequestLogChoice | null {
  if (choice === false || choice === 'all' || choice === 'errors') return choice || null
  if (isPlain(choice)) rejectUnknown(choice, { share: true }, 'requestLog.')
  if (typeof choice?.share === 'number' && choice.share >= 0 && choice.share <= 1) return choice
  throw new TypeError("Option 'requestLog' must be false, 'all', 'errors', or { share } from 0 to 1")
}

function readRateLimits(given: RateLimitOptions | false = {}): {
  readonly rateLimits: RateLimits | null
  readonly rateLimitScope: 'shared' | 'process'
} {
  if (given === false) return { rateLimits: null, rateLimitScope: 'shared' }
  rejectUnknown(given, { key: true, organization: true, scope: true }, 'rateLimit.')
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
      `Option 'rateLimit.${name}' must be ${RATE_LIMIT_REQUIREMENT}: ` +
        `current value is { perSecond: ${printValue(limit.perSecond)}, burst: ${printValue(limit.burst)} }`,
    )
  }
  return limit
}
