import { isMatching, printValue, readWhole, rejectUnknown } from '../base/options.ts'
import { VERSION } from '../base/version.ts'
import {
  DESTINATION_NAMES,
  type DestinationOptions,
  type DestinationRules,
  readDestinationOptions,
} from '../webhooks/destination.ts'
import { type Lookup, readLookup } from '../webhooks/dns-lookup.ts'

/** Options for `createWebhookSender`. Each option is read once. */
export interface WebhookSenderOptions extends DestinationOptions {
  /**
   * Timeout for an entire attempt in milliseconds, from the DNS lookup to the last byte read. Defaults to 10,000, which
   * is also the maximum.
   */
  timeoutMs?: number | undefined
  /**
   * Maximum number of connections per origin. Any further attempts wait for a connection, which counts toward the
   * timeout. Defaults to 256, just like a loop's concurrency, so endpoints with the same provider don't have to wait.
   */
  maxConnectionsPerOrigin?: number | undefined
  /** The User-Agent header. Defaults to `business-api-kit/<version> (webhooks)`. */
  userAgent?: string | undefined
  /**
   * Resolves hostnames. Must always call back. At most one lookup runs per hostname at a time. Defaults to
   * `publicLookup`, which queries DNS servers directly because the hostnames are untrusted. If `allowPrivateNetworks`
   * is set, defaults to `dns.lookup`.
   */
  lookup?: Lookup | undefined
  /** PEM certificate authorities to trust in place of Node's. Defaults to Node's. */
  ca?: string | readonly string[] | undefined
}

/** The validated options with defaults applied. */
export interface ResolvedSenderOptions {
  readonly destinations: DestinationRules
  readonly timeoutMs: number
  readonly maxConnectionsPerOrigin: number
  readonly userAgent: string
  readonly lookup: Lookup
  readonly ca: string[] | undefined
}

/** Maximum timeout of an attempt, in milliseconds (see section 6 of the spec, delivery rule 2). */
const TIMEOUT_MAX_MS = 10_000
const CONNECTIONS_MAX = 65_535

/** @throws `TypeError` or `RangeError` naming the invalid option */
export function readSenderOptions(options: WebhookSenderOptions): ResolvedSenderOptions {
  rejectUnknown(options, {
    ...DESTINATION_NAMES,
    timeoutMs: true,
    maxConnectionsPerOrigin: true,
    userAgent: true,
    lookup: true,
    ca: true,
  })
  const destinations = readDestinationOptions(options)
  return {
    destinations,
    timeoutMs: readWhole('timeoutMs', options.timeoutMs, TIMEOUT_MAX_MS, { max: TIMEOUT_MAX_MS }),
    maxConnectionsPerOrigin: readWhole('maxConnectionsPerOrigin', options.maxConnectionsPerOrigin, 256, {
      max: CONNECTIONS_MAX,
    }),
    userAgent: readUserAgent(options.userAgent),
    lookup: readLookup(options.lookup, destinations.allowPrivateNetworks),
    ca: readAuthorities(options.ca),
  }
}

function readUserAgent(userAgent = `business-api-kit/${VERSION} (webhooks)`): string {
  if (isMatching(userAgent, /^[!-~]([ -~]{0,254}[!-~])?$/)) return userAgent
  const text = `current value is ${printValue(userAgent)}`
  throw new TypeError(`Option 'userAgent' must be 1 to 256 visible ASCII characters: ${text}`)
}

function readAuthorities(ca: string | readonly string[] | undefined): string[] | undefined {
  if (ca === undefined) return undefined
  const authorities = [ca].flat()
  if (authorities.length > 0 && authorities.every((pem) => isMatching(pem, /-----BEGIN CERTIFICATE-----/)))
    return authorities
  throw new TypeError("Option 'ca' must be certificates in PEM")
}
