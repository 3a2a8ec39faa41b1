import type { LookupAddress } from 'node:dns'
import { findRefusedRange, parseAddress } from './address-ranges.ts'
import { type Lookup, publicLookup } from './lookup.ts'

// The verdict on where a webhook may go. It falls twice: when an endpoint is registered, so that the customer hears of a
// mistake at once, and at every attempt, as a name can mean another address by then.

/** What a development host allows beyond the public internet. Read by the developer settings and by the sender. */
export interface DestinationOptions {
  /** Whether addresses are not judged: endpoints on this machine and in this network get webhooks. Default `false`. */
  allowPrivateNetworks?: boolean | undefined
  /** Whether `http:` is allowed beside `https:`, and port 80 with it. Default `false`. */
  allowHttp?: boolean | undefined
}

/** No webhook goes there. */
export interface RefusedDestination {
  readonly allowed: false
  /** What the customer may read: {@link DESTINATION_NOT_ALLOWED}, or what the URL must be. */
  readonly reason: string
  /** What only the operator may read, as it tells what the network looks like from inside: which address, which range. */
  readonly detail: string
}

/** Whether a webhook may go there. */
export type DestinationVerdict = { readonly allowed: true } | RefusedDestination

/** Whether a webhook may go there, with the URL as it was read. */
export type UrlVerdict = { readonly allowed: true; readonly url: URL } | RefusedDestination

/** All that a customer is told of a refused address: more would make us a map of the network that we run in. */
export const DESTINATION_NOT_ALLOWED = 'destination not allowed'

/** The longest URL in characters. */
export const URL_MAX_LENGTH = 2048

const ALLOWED: DestinationVerdict = { allowed: true }

/**
 * Judges a URL as far as it can be without asking for its addresses: a name that is allowed here may still resolve to an
 * address that is not.
 */
export function judgeUrl(text: string, options: DestinationOptions = {}): UrlVerdict {
  const url = text.length <= URL_MAX_LENGTH ? parseUrl(text) : null
  // Measured again: what is written in another script grows when it is encoded.
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

function isAllowedPort({ port }: URL, { allowHttp }: DestinationOptions): boolean {
  // None is the protocol's own.
  if (port === '' || port === '443') return true
  return Number(port) >= FREE_PORTS_FROM || (port === '80' && allowHttp === true)
}

/** The host of a URL without brackets, and without the dots that end a name given in full. */
export function readHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$|\.+$/g, '')
}

function judgeHost(host: string, options: DestinationOptions): DestinationVerdict {
  if (host === '') return refuse('the URL has no host')
  if (options.allowPrivateNetworks) return ALLOWED
  if (host === 'localhost' || host.endsWith('.localhost')) return refuse(`${host} is this machine`)
  // The URL parser has made one spelling of all: 0x7f.1, 2130706433, 127。0。0。1 and %31%32%37.1 are 127.0.0.1 by now.
  return parseAddress(host) ? judgeAddress(host, options) : ALLOWED
}

/** Judges an address as the system writes it. What is not one is refused. */
export function judgeAddress(
  address: string,
  { allowPrivateNetworks }: DestinationOptions = {},
): DestinationVerdict {
  if (allowPrivateNetworks) return ALLOWED
  const parsed = parseAddress(address)
  if (!parsed) return refuse(`'${address}' is not an address`)
  const range = findRefusedRange(parsed)
  return range ? refuse(`${address} is in ${range.cidr} (${range.purpose})`) : ALLOWED
}

/**
 * Judges all the addresses of a name: one that is refused refuses the name. A name with a public and a private address
 * is a mistake at best; at worst it waits for the connection to the public one to fail and for us to try the other.
 */
export function judgeAddresses(
  addresses: readonly Pick<LookupAddress, 'address'>[],
  options: DestinationOptions = {},
): DestinationVerdict {
  for (const { address } of addresses) {
    const verdict = judgeAddress(address, options)
    if (!verdict.allowed) return verdict
  }
  return ALLOWED
}

/** How long a name may take to resolve when an endpoint is registered: an administrator waits for it. */
const REGISTRATION_LOOKUP_MS = 2000

/**
 * Judges where an endpoint is when it is registered. A name that does not resolve in time is accepted: its zone may not
 * be there yet, and it is judged again at every attempt.
 */
export async function judgeDestination(
  text: string,
  options: DestinationOptions & {
    /** Default `publicLookup`. */
    lookup?: Lookup | undefined
    /** Milliseconds until a name is accepted that does not resolve. Default 2000. */
    lookupTimeoutMs?: number | undefined
  } = {},
): Promise<DestinationVerdict> {
  const verdict = judgeUrl(text, options)
  if (!verdict.allowed || options.allowPrivateNetworks) return verdict
  const { lookup = publicLookup, lookupTimeoutMs = REGISTRATION_LOOKUP_MS } = options
  let timer: NodeJS.Timeout | undefined
  const overdue = new Promise<readonly LookupAddress[]>((resolve) => {
    timer = setTimeout(resolve, lookupTimeoutMs, [])
  })
  const resolved = resolveAddresses(readHost(verdict.url), lookup).catch(() => [])
  const addresses = await Promise.race([resolved, overdue])
  clearTimeout(timer)
  return judgeAddresses(addresses, options)
}

/** Resolves a name. Rejects with what the look-up fails with, also when it finds nothing. */
export function resolveAddresses(hostname: string, lookup: Lookup): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error)
      // A look-up that knows only the short form of the call gives one address, as text.
      else if (!Array.isArray(addresses)) reject(new Error(`the look-up of ${hostname} gave no list`))
      else if (addresses.length === 0) reject(new Error(`${hostname} has no address`))
      else resolve(addresses)
    })
  })
}

function refuseUrl(reason: string): RefusedDestination {
  return { allowed: false, reason, detail: `the URL ${reason}` }
}

function refuse(detail: string): RefusedDestination {
  return { allowed: false, reason: DESTINATION_NOT_ALLOWED, detail }
}
