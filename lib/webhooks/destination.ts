import { type LookupAddress, NODATA } from 'node:dns'
import { type Names, readFlag } from '../base/options.ts'
import { withDeadline } from '../base/time.ts'
import { type AddressRange, findRange, findRefusedRange, parseAddress, parseRange } from './address-ranges.ts'
import { isNotThere, type Lookup, publicLookup } from './dns-lookup.ts'

// The verdict on the destination of a webhook. A destination is judged when an endpoint is registered, so the
// customer learns of a mistake at once, and again at every attempt, because a name can mean another address by then.

/** The allowed destinations of webhooks. Give the developer settings and the sender the same options. */
export interface DestinationOptions {
  /**
   * Ranges of addresses that no webhook is sent to, beside the ranges outside the public internet: `198.51.100.0/24`,
   * `fd12::/16`, `203.0.113.7`. Rejected with `allowPrivateNetworks` too. Default none.
   */
  refuseAddresses?: readonly string[] | undefined
  /**
   * Allows addresses of private networks, so endpoints on this machine and in this network get webhooks: for
   * development. A name that does not resolve then has an error of its own. Default `false`.
   */
  allowPrivateNetworks?: boolean | undefined
  /** Allows `http:` beside `https:`, and port 80. Default `false`. */
  allowHttp?: boolean | undefined
  /** Allows both `http:` and private networks: never in production. Default `false`. */
  localDevelopment?: boolean | undefined
}

/** The names of {@link DestinationOptions}. */
export const DESTINATION_NAMES: Names<DestinationOptions> = {
  refuseAddresses: true,
  allowPrivateNetworks: true,
  allowHttp: true,
  localDevelopment: true,
}

/** The options, checked and parsed. */
export interface DestinationRules {
  readonly allowPrivateNetworks?: boolean
  readonly allowHttp?: boolean
  readonly refusedRanges?: readonly AddressRange[]
}

/** No webhook goes there. */
export interface RefusedDestination {
  readonly allowed: false
  /** The reason for the customer: {@link DESTINATION_NOT_ALLOWED}, or the rule that the URL breaks. */
  readonly reason: string
  /** The reason for the operator only, with the address and the range, because these show the inside of the network. */
  readonly detail: string
}

/** The verdict on a destination. */
export type DestinationVerdict = { readonly allowed: true } | RefusedDestination

/** The verdict on a URL, with the URL as parsed. */
export type UrlVerdict = { readonly allowed: true; readonly url: URL } | RefusedDestination

/**
 * The only reason that a customer reads for a rejected address and for a name that does not exist. A more precise message would reveal
 * the service's own network, which may have private names.
 */
export const DESTINATION_NOT_ALLOWED = 'destination not allowed'

/** The longest URL in characters. */
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

/** Judges a URL without a lookup: an allowed name may still resolve to an address that is rejected. */
export function judgeUrl(text: string, options: DestinationRules = {}): UrlVerdict {
  const url = text.length <= URL_MAX_LENGTH ? parseUrl(text) : null
  // Measured again, because text in another script grows when encoded.
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

/** Below are the services of a machine: mail or a printer would take lines of our request for commands. */
const FREE_PORTS_FROM = 1024

function isAllowedPort({ port }: URL, { allowHttp }: DestinationRules): boolean {
  // An empty port is the default port of the protocol.
  if (port === '' || port === '443') return true
  return Number(port) >= FREE_PORTS_FROM || (port === '80' && allowHttp === true)
}

/** Reads the host of a URL, without brackets and without the dots that end a name given in full. */
export function readHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$|\.+$/g, '')
}

/**
 * The last label of names that the public DNS never has and private networks use (RFC 6762, appendix G, and RFC 8375).
 * Other private names are recognized by the resolved addresses.
 */
const PRIVATE_DOMAINS = new Set(
  'localhost local localdomain internal intranet private corp home lan arpa'.split(' '),
)

function judgeHost(host: string, options: DestinationRules): DestinationVerdict {
  if (host === '') return refuse('the URL has no host')
  // The URL parser has normalized every spelling: 0x7f.1, 2130706433, 127。0。0。1 and %31%32%37.1 are 127.0.0.1 by now.
  if (parseAddress(host)) return judgeAddress(host, options)
  if (options.allowPrivateNetworks) return ALLOWED
  const labels = host.split('.')
  const isPrivate = labels.length === 1 || PRIVATE_DOMAINS.has(labels.at(-1) ?? '')
  return isPrivate ? refuse(`${host} is a name for a private network`) : ALLOWED
}

/** Judges an address in the system's spelling. Any other string is rejected. */
export function judgeAddress(
  address: string,
  { allowPrivateNetworks, refusedRanges = [] }: DestinationRules = {},
): DestinationVerdict {
  // An address with a zone is an address of the local link, which only `allowPrivateNetworks` can allow.
  const parsed = parseAddress(allowPrivateNetworks ? address.replace(/%.*$/, '') : address)
  if (!parsed) return refuse(`'${address}' is not an address`)
  const range =
    findRange(parsed, refusedRanges) ?? (allowPrivateNetworks ? undefined : findRefusedRange(parsed))
  return range ? refuse(`${address} is in ${range.cidr} (${range.purpose})`) : ALLOWED
}

/**
 * Judges all addresses of a name: a single rejected address rejects the name. A name with a public and a private address
 * is a mistake at best, and at worst an attack that lets the connection to the public address fail so that the private
 * address is tried next.
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
 * Judges a name that failed to resolve. A name that does not exist is rejected like a name with a rejected address: a
 * difference would show strangers the names in the network of the service. A failing name server shows nothing, so the
 * name is allowed.
 */
export function judgeUnresolved(
  hostname: string,
  error: unknown,
  { allowPrivateNetworks }: DestinationRules = {},
): DestinationVerdict {
  if (allowPrivateNetworks || !isNotThere(error)) return ALLOWED
  return refuse(`${hostname} does not resolve: ${error instanceof Error ? error.message : error}`)
}

/** Timeout for resolving a name at registration, in ms: an administrator waits. */
const REGISTRATION_LOOKUP_MS = 2000

/**
 * Judges the URL of an endpoint at registration. A name that does not resolve in time, or with failing name servers, is
 * accepted: every attempt judges the name again.
 */
export async function judgeDestination(
  text: string,
  options: DestinationRules & {
    /** Default `publicLookup`. */
    lookup?: Lookup | undefined
    /** Milliseconds until a name that does not resolve is accepted. Default 2000. */
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

/** Maximum number of a name's addresses that are tried: a DNS response can have thousands, and each address is judged. */
const ADDRESSES_MAX = 64

/** Resolves a name to its first 64 addresses. Rejects with the error of the lookup, also when nothing is found. */
export function resolveAddresses(hostname: string, lookup: Lookup): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error)
      // A lookup that only knows the short form returns a single address, as a string.
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
