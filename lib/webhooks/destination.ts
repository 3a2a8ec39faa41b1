import { type LookupAddress, NODATA } from 'node:dns'
import { type Names, readFlag } from '../base/options.ts'
import { withDeadline } from '../base/time.ts'
import { type AddressRange, findRange, findRefusedRange, parseAddress, parseRange } from './address-ranges.ts'
import { isNotThere, type Lookup, publicLookup } from './dns-lookup.ts'

// Decides whether a webhook may be sent to a destination. We check when an endpoint is registered, so customers
// find out about mistakes right away, and again at every attempt, since the name might resolve to a different
// address by then.

/** Options for allowed webhook destinations. The developer settings and the sender should get the same options. */
export interface DestinationOptions {
  /**
   * Address ranges to reject in addition to everything outside the public internet, for example `198.51.100.0/24`,
   * `fd12::/16` or `203.0.113.7`. They are rejected even with `allowPrivateNetworks`. Defaults to none.
   */
  refuseAddresses?: readonly string[] | undefined
  /**
   * Allows addresses in private networks, including this machine. Meant for development. Names that don't resolve
   * are then reported with a separate error. Defaults to `false`.
   */
  allowPrivateNetworks?: boolean | undefined
  /** Allows `http:` URLs and port 80. Defaults to `false`. */
  allowHttp?: boolean | undefined
  /** Allows both `http:` and private networks. Don't use this in production. Defaults to `false`. */
  localDevelopment?: boolean | undefined
}

/** The names of {@link DestinationOptions}. */
export const DESTINATION_NAMES: Names<DestinationOptions> = {
  refuseAddresses: true,
  allowPrivateNetworks: true,
  allowHttp: true,
  localDevelopment: true,
}

/** The options after validation and parsing. */
export interface DestinationRules {
  readonly allowPrivateNetworks?: boolean
  readonly allowHttp?: boolean
  readonly refusedRanges?: readonly AddressRange[]
}

/** A destination that webhooks can't be sent to. */
export interface RefusedDestination {
  readonly allowed: false
  /** The reason shown to the customer, either {@link DESTINATION_NOT_ALLOWED} or the rule that the URL violates. */
  readonly reason: string
  /** The reason for operators only. It includes the address and range, which reveals the internal network. */
  readonly detail: string
}

/** Whether a destination is allowed. */
export type DestinationVerdict = { readonly allowed: true } | RefusedDestination

/** Whether a URL is allowed, and if so, the parsed URL. */
export type UrlVerdict = { readonly allowed: true; readonly url: URL } | RefusedDestination

/**
 * The only reason customers get to see for rejected addresses and names that don't exist. Anything more precise would
 * reveal details of the service's own network, for example which private names exist.
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
  const action = "Cannot use option 'refuseAddresses' because it must be"
  if (!Array.isArray(ranges))
    throw new TypeError(`${action} a list of address ranges: current value is ${ranges}`)
  return ranges.map((text: unknown) => {
    const range = typeof text === 'string' ? parseRange(text, 'refused by the host') : undefined
    if (range) return range
    throw new TypeError(
      `${action} addresses or ranges like 198.51.100.0/24 and fd12::/16, without bits outside the prefix: ` +
        `'${text}' is neither`,
    )
  })
}

/** Checks a URL without a DNS lookup. Even if the name is allowed, it may resolve to an address that isn't. */
export function judgeUrl(text: string, options: DestinationRules = {}): UrlVerdict {
  const url = text.length <= URL_MAX_LENGTH ? parseUrl(text) : null
  // Check the length again, since non-ASCII characters get longer when encoded.
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

/** System services use lower ports. A mail server or printer could mistake lines of our request for commands. */
const FREE_PORTS_FROM = 1024

function isAllowedPort({ port }: URL, { allowHttp }: DestinationRules): boolean {
  // The port is empty if it's the protocol's default.
  if (port === '' || port === '443') return true
  return Number(port) >= FREE_PORTS_FROM || (port === '80' && allowHttp === true)
}

/** Returns the host of a URL without brackets and trailing dots. */
export function readHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$|\.+$/g, '')
}

/**
 * Top-level domains that never exist in public DNS but are used in private networks (RFC 6762, appendix G, and RFC
 * 8375). Other private names are detected by the addresses they resolve to.
 */
const PRIVATE_DOMAINS = new Set(
  'localhost local localdomain internal intranet private corp home lan arpa'.split(' '),
)

function judgeHost(host: string, options: DestinationRules): DestinationVerdict {
  if (host === '') return refuse('the URL has no host')
  // The URL parser has already normalized all spellings. For example, 0x7f.1, 2130706433, 127。0。0。1 and %31%32%37.1 are
  // all 127.0.0.1 by now.
  if (parseAddress(host)) return judgeAddress(host, options)
  if (options.allowPrivateNetworks) return ALLOWED
  const labels = host.split('.')
  const isPrivate = labels.length === 1 || PRIVATE_DOMAINS.has(labels.at(-1) ?? '')
  return isPrivate ? refuse(`${host} is a name for a private network`) : ALLOWED
}

/** Checks an address in the system's notation. Any other string is rejected. */
export function judgeAddress(
  address: string,
  { allowPrivateNetworks, refusedRanges = [] }: DestinationRules = {},
): DestinationVerdict {
  // An address with a zone is link-local, so it can only be allowed by `allowPrivateNetworks`.
  const parsed = parseAddress(allowPrivateNetworks ? address.replace(/%.*$/, '') : address)
  if (!parsed) return refuse(`'${address}' is not an address`)
  const range =
    findRange(parsed, refusedRanges) ?? (allowPrivateNetworks ? undefined : findRefusedRange(parsed))
  return range ? refuse(`${address} is in ${range.cidr} (${range.purpose})`) : ALLOWED
}

/**
 * Checks all addresses of a name. If any of them is rejected, so is the name. A name with both public and private
 * addresses is a mistake at best. At worst it's an attack that makes the connection to the public address fail so that
 * the private one is tried next.
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
 * Checks a name that failed to resolve. If the name doesn't exist, the result is the same as for a rejected address.
 * Otherwise strangers could find out which names exist in the service's network. If the name servers failed, nothing is
 * revealed and the name is allowed.
 */
export function judgeUnresolved(
  hostname: string,
  error: unknown,
  { allowPrivateNetworks }: DestinationRules = {},
): DestinationVerdict {
  if (allowPrivateNetworks || !isNotThere(error)) return ALLOWED
  return refuse(`${hostname} does not resolve: ${error instanceof Error ? error.message : error}`)
}

/** Timeout for resolving a name at registration, in milliseconds. It's short because an administrator is waiting. */
const REGISTRATION_LOOKUP_MS = 2000

/**
 * Checks the URL of an endpoint at registration. If the name doesn't resolve in time or its name servers fail, the URL
 * is accepted, since every attempt checks it again.
 */
export async function judgeDestination(
  text: string,
  options: DestinationRules & {
    /** Defaults to `publicLookup`. */
    lookup?: Lookup | undefined
    /** How long to wait for the lookup before the URL is accepted, in milliseconds. Defaults to 2000. */
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

/** Maximum number of addresses to use per name. A DNS response can contain thousands, and we have to check each one. */
const ADDRESSES_MAX = 64

/** Resolves a name to its first 64 addresses. Rejects with the lookup's error, or if there are no addresses. */
export function resolveAddresses(hostname: string, lookup: Lookup): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error)
      // A lookup that doesn't support `all` returns a single address as a string.
      else if (!Array.isArray(addresses)) reject(new Error(`the lookup of ${hostname} gave no list`))
      else if (addresses.length === 0)
        reject(Object.assign(new Error(`${hostname} has no address`), { code: NODATA }))
      else resolve(addresses.slice(0, ADDRESSES_MAX))
    })
  })
}

function refuseUrl(reason: string): RefusedDestination {
  return { allowed: false, reason, detail: `the URL ${reason}` }
}

function refuse(detail: string): RefusedDestination {
  return { allowed: false, reason: DESTINATION_NOT_ALLOWED, detail }
}
