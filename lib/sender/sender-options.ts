import { type Names, readWhole, rejectUnknown } from '../base/options.ts'
import { VERSION } from '../base/version.ts'
import {
  DESTINATION_NAMES,
  type DestinationOptions,
  type DestinationRules,
  readDestinationOptions,
} from '../webhooks/destination.ts'
import { type Lookup, readLookup } from '../webhooks/dns-lookup.ts'

/** Options of `createWebhookSender`. Each is read once. */
export interface WebhookSenderOptions extends DestinationOptions {
  /**
   * Maximum duration of an attempt in milliseconds, from the name lookup to the last byte read. Default and maximum: 10,000.
   */
  timeoutMs?: number | undefined
  /**
   * Connections to one origin at once: further attempts wait for a free connection, and the wait counts as part of the
   * attempt. Default 256: as many as a delivery loop makes attempts, so no endpoint waits for another endpoint of
   * the same provider.
   */
  maxConnectionsPerOrigin?: number | undefined
  /** The User-Agent header of every request. Default `business-api-kit/<version> (webhooks)`. */
  userAgent?: string | undefined
  /**
   * Resolves names, once at a time for each name, and must call back. Default `publicLookup`, which asks the name
   * servers from this process, because names come from strangers; with `allowPrivateNetworks`, `dns.lookup`, which
   * resolves as the system does.
   */
  lookup?: Lookup | undefined
  /** Certificate authorities to trust, in PEM, instead of the authorities that Node trusts. Default: Node's authorities. */
  ca?: string | readonly string[] | undefined
}

/** The checked options with the defaults filled in. */
export interface ResolvedSenderOptions {
  readonly destinations: DestinationRules
  readonly timeoutMs: number
  readonly maxConnectionsPerOrigin: number
  readonly userAgent: string
  readonly lookup: Lookup
  readonly ca: string[] | undefined
}

/** Timeout of an attempt, in ms (specification, section 6, rule 2 of delivery). */
const TIMEOUT_MAX_MS = 10_000
const CONNECTIONS_MAX = 65_535

const NAMES: Names<WebhookSenderOptions> = {
  ...DESTINATION_NAMES,
  timeoutMs: true,
  maxConnectionsPerOrigin: true,
  userAgent: true,
  lookup: true,
  ca: true,
}

/** @throws `TypeError` or `RangeError` naming the invalid option */
export function readSenderOptions(options: WebhookSenderOptions): ResolvedSenderOptions {
  rejectUnknown(options, NAMES)
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
  if (/^[!-~]([ -~]{0,254}[!-~])?$/.test(userAgent)) return userAgent
  throw new TypeError(
    `Cannot use option 'userAgent' because it must be 1 to 256 visible ASCII characters: current value is '${userAgent}'`,
  )
}

function readAuthorities(ca: string | readonly string[] | undefined): string[] | undefined {
  if (ca === undefined) return undefined
  const authorities = [ca].flat()
  if (authorities.length > 0 && authorities.every((pem) => /-----BEGIN CERTIFICATE-----/.test(pem)))
    return authorities
  throw new TypeError("Cannot use option 'ca' because it must be certificates in PEM")
}
