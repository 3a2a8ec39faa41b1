import { type LookupAddress, NODATA } from 'node:dns'
import { isMatching, type Names, printValue, readFlag } from '../base/options.ts'
import { withDeadline } from '../base/time.ts'
import { type AddressRange, findRange, findRefusedRange, parseAddress, parseRange } from './address-ranges.ts'
import { isNotThere, type Lookup, lookUp, publicLookup } from './dns-lookup.ts'

// Decides whether we may send webhooks to a destination. Checked at registration so customers find out about mistakes
// right away, and again before each attempt since DNS may have changed in the meantime.

/** Options for allowed webhook destinations. Pass the same options to the developer settings and the sender. */
export interface DestinationOptions {
  /**
   * Additional address ranges to block, for example `198.51.100.0/24`, `fd12::/16` or `203.0.113.7`. These are blocked
   * even with `allowPrivateNetworks`. Defaults to `[]`. Anything outside the public internet is blocked by default.
   */
  refuseAddresses?: readonly string[] | undefined
  /**
   * If `true`, allows private networks and localhost. Meant for development. Hostnames that don't resolve are then
   * reported with their own error. Defaults to `false`.
   */
  allowPrivateNetworks?: boolean | undefined
  /** Allows `http:` URLs and port 80. Defaults to `false`. */
  allowHttp?: boolean | undefined
  /** If `true`, allows both `http:` and private networks. Not for production. Defaults to `false`. */
  localDevelopment?: boolean | undefined
}

/** The names of {@link DestinationOptions}. */
export const DESTINATION_NAMES: Names<DestinationOptions> = {
  refuseAddresses: true,
  allowPrivateNetworks: true,
  allowHttp: true,
  localDevelopment: true,
}

/** The parsed options. */
export interface DestinationRules {
  readonly allowPrivateNetworks?: boolean
  readonly allowHttp?: boolean
  readonly refusedRanges?: readonly AddressRange[]
}

/** A destination that isn't allowed. */
export interface RefusedDestination {
  readonly allowed: false
  /** The reason to show to customers, which is either {@link DESTINATION_NOT_ALLOWED} or the violated URL rule. */
  readonly reason: string
  /** The reason for operators. Includes the address and range, which reveal details about the internal network. */
  readonly detail: string
}

/** Whether a destination is allowed. */
export type DestinationVerdict = { readonly allowed: true } | RefusedDestination

/** Whether a URL is allowed, and if so, the parsed URL. */
export type UrlVerdict = { readonly allowed: true; readonly url: URL } | RefusedDestination

/**
 * The only reason customers ever see for blocked addresses and nonexistent hostnames. Any more detail would leak
 * information about our network, such as which internal hostnames exist.
 */
export const DESTINATION_NOT_ALLOWED = 'destination not allowed'

/** Maximum length of a URL in characters. */
export const URL_MAX_LENGTH = 2048

const ALLOWED: DestinationVerdict = { allowed: true }

/** @throws `TypeError` naming the invalid option */
export function readDestinationOptions(options: DestinationOptions): Required<DestinationRules> {
  const isLocal = readFlag('localDevelopment', options.localDevelopment)
  return {
    allowPrivateNetworks: readFlag('allowPrivateNetworks', options.allowPrivateNetworks) || isLocal,
    allowHttp: readFlag('allowHttp', options.allowHttp) || isLocal,
    refusedRanges: readRanges(options.refuseAddresses),
  }
}

function readRanges(ranges: readonly string[] = []): AddressRange[] {
  const action = "Option 'refuseAddresses' must be"
  if (!Array.isArray(ranges))
    throw new TypeError(`${action} a list of address ranges: current value is ${printValue(ranges)}`)
  return ranges.map((text: unknown) => {
    const range = typeof text === 'string' ? parseRange(text, 'refused by the host') : undefined
    if (range) return range
    throw new TypeError(
      `${action} addresses or ranges like 198.51.100.0/24 and fd12::/16, without bits outside the prefix: ` +
        `${isMatching(text, ADDRESS_LIKE) ? `'${text}'` : printValue(text)} is neither`,
    )
  })
}

/** Matches what can only be a mistyped address. Anything else may be a misplaced secret, and isn't shown. */
const ADDRESS_LIKE = /^(?=.*[.:])[\da-f.:/]{1,50}$/i

/** Checks a URL without resolving its hostname. The address still has to be checked after resolving. */
export function judgeUrl(text: string, options: DestinationRules = {}): UrlVerdict {
  const url = text.length <= URL_MAX_LENGTH ? parseUrl(text) : null
  // Check the length again because non-ASCII characters get longer when encoded.
  if (!url || url.href.length > URL_MAX_LENGTH) {
    return refuseUrl(`must be a URL of at most ${URL_MAX_LENGTH} characters`)
  }
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && options.allowHttp)) {
    return refuseUrl(options.allowHttp ? 'must be https or http' : 'must be https')
  }
  if (url.username !== '' || url.password !== '') return refuseUrl('must not contain a user name or password')
  if (!isAllowedPort(url, options)) {
    return refuseUrl(`must use port ${options.allowHttp ? '80, 443' : '443'} or one from ${FREE_PORTS_FROM}`)
  }
  const verdict = judgeHost(readHost(url), options)
  return verdict.allowed ? { allowed: true, url } : verdict
}

function parseUrl(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

/** Lower ports belong to system services. A mail server or printer might interpret parts of our request as commands. */
const FREE_PORTS_FROM = 1024

function isAllowedPort({ port }: URL, { allowHttp }: DestinationRules): boolean {
  // The port is empty if it's the scheme's default.
  if (port === '' || port === '443') return true
  return Number(port) >= FREE_PORTS_FROM || (port === '80' && allowHttp === true)
}

/** Returns a URL's hostname without brackets and trailing dots. */
export function readHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$|\.+$/g, '')
}

/**
 * Top-level domains that are only used in private networks (RFC 6762, appendix G, and RFC 8375). All other private
 * hostnames are caught when we check the addresses they resolve to.
 */
const PRIVATE_DOMAINS = new Set(
  'localhost local localdomain internal intranet private corp home lan arpa'.split(' '),
)

function judgeHost(host: string, options: DestinationRules): DestinationVerdict {
  if (host === '') return refuse('the URL has no host')
  // The URL parser has normalized the hostname at this point. For example, 0x7f.1, 2130706433, 127。0。0。1 and
  // %31%32%37.1 have all become 127.0.0.1.
  if (parseAddress(host)) return judgeAddress(host, options)
  if (options.allowPrivateNetworks) return ALLOWED
  const labels = host.split('.')
  const isPrivate = labels.length === 1 || PRIVATE_DOMAINS.has(labels.at(-1) ?? '')
  return isPrivate ? refuse(`${host} is a name for a private network`) : ALLOWED
}

/** Checks an IP address. Anything that isn't a canonical address is rejected. */
export function judgeAddress(
  address: string,
  { allowPrivateNetworks, refusedRanges = [] }: DestinationRules = {},
): DestinationVerdict {
  // Addresses with a zone are always link-local, so only `allowPrivateNetworks` can allow them.
  const parsed = parseAddress(allowPrivateNetworks ? address.replace(/%.*$/, '') : address)
  if (!parsed) return refuse(`'${address}' is not an address`)
  const range =
    findRange(parsed, refusedRanges) ?? (allowPrivateNetworks ? undefined : findRefusedRange(parsed))
  return range ? refuse(`${address} is in ${range.cidr} (${range.purpose})`) : ALLOWED
}

/**
 * Checks all addresses that a hostname resolves to, and rejects the hostname if any address is blocked. Mixing public
 * and private addresses is a mistake at best. At worst it's an attack, where the connection to the public address fails
 * on purpose so that we try the private one.
 */
export function judgeAddresses(
  addresses: readonly Pick<LookupAddress, 'address'>[],
  options: DestinationRules = {},
): DestinationVerdict {
  for (const { address } of addresses) {
    const verdict = judgeAddress(address, options)
    if (!verdict.allowed) return verdict
  }
  return ALLOWED
}

/**
 * Checks a hostname that failed to resolve. A nonexistent name gets the same result as a blocked address, to avoid
 * revealing which names exist in our network. If the DNS servers failed, the hostname is allowed because the failure
 * reveals nothing.
 */
export function judgeUnresolved(
  hostname: string,
  error: unknown,
  { allowPrivateNetworks }: DestinationRules = {},
): DestinationVerdict {
  if (allowPrivateNetworks || !isNotThere(error)) return ALLOWED
  return refuse(`${hostname} does not resolve: ${error instanceof Error ? error.message : error}`)
}

/** DNS timeout at registration, in milliseconds. Kept short because someone is waiting. */
const REGISTRATION_LOOKUP_MS = 2000

/**
 * Checks an endpoint's URL at registration. The URL is accepted if resolving its hostname times out or fails on the DNS
 * server, since we check again before each attempt.
 */
export async function judgeDestination(
  text: string,
  options: DestinationRules & {
    /** The DNS lookup. Defaults to `publicLookup`. */
    lookup?: Lookup | undefined
    /** How long to wait for the lookup before accepting the URL, in milliseconds. Defaults to 2000. */
    lookupTimeoutMs?: number | undefined
  } = {},
): Promise<DestinationVerdict> {
  const verdict = judgeUrl(text, options)
  const { allowPrivateNetworks, refusedRanges = [] } = options
  if (!verdict.allowed || (allowPrivateNetworks && refusedRanges.length === 0)) return verdict
  const { lookup = publicLookup, lookupTimeoutMs = REGISTRATION_LOOKUP_MS } = options
  const hostname = readHost(verdict.url)
  if (parseAddress(hostname)) return ALLOWED
  const resolved = resolveAddresses(hostname, lookup).then(
    (addresses) => judgeAddresses(addresses, options),
    (error) => judgeUnresolved(hostname, error, options),
  )
  return withDeadline(resolved, lookupTimeoutMs, () => ALLOWED)
}

/** Maximum number of addresses to use per hostname. A DNS response can have thousands, and we check each one. */
const ADDRESSES_MAX = 64

/** Resolves a hostname to at most 64 addresses. Rejects if the lookup fails or finds no addresses. */
export async function resolveAddresses(hostname: string, lookup: Lookup): Promise<LookupAddress[]> {
  const addresses = await lookUp(hostname, lookup)
  // If a custom lookup doesn't support `all`, we get a single address as a string.
  if (!Array.isArray(addresses)) throw new Error(`the lookup of ${hostname} gave no list`)
  if (addresses.length > 0) return addresses.slice(0, ADDRESSES_MAX)
  throw Object.assign(new Error(`${hostname} has no address`), { code: NODATA })
}

function refuseUrl(reason: string): RefusedDestination {
  return { allowed: false, reason, detail: `the URL ${reason}` }
}

function refuse(detail: string): RefusedDestination {
  return { allowed: false, reason: DESTINATION_NOT_ALLOWED, detail }
}
