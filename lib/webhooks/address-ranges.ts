import { isIPv4, isIPv6 } from 'node:net'

/** An IP address range that webhooks must not be sent to. */
export interface AddressRange {
  /** The range in CIDR notation, for example `10.0.0.0/8` or `fc00::/7`. */
  readonly cidr: string
  /** What the range is reserved for, in the registry's words. */
  readonly purpose: string
  readonly family: 4 | 6
  readonly first: bigint
  readonly last: bigint
}

/** A parsed IP address. Different spellings of the same address compare equal. */
export interface ParsedAddress {
  readonly family: 4 | 6
  readonly bits: bigint
}

/**
 * All ranges that aren't part of the public internet or can lead back into a private network: IANA's special-purpose
 * registries, relays that embed IPv4 in IPv6, and the internal address Azure exposes to its VMs.
 */
export const REFUSED_RANGES: readonly AddressRange[] = [
  range('0.0.0.0/8', 'this host'),
  range('10.0.0.0/8', 'private network'),
  range('100.64.0.0/10', 'shared by a carrier'),
  range('127.0.0.0/8', 'loopback'),
  // Includes 169.254.169.254, the metadata service that hands out credentials on most clouds.
  range('169.254.0.0/16', 'link-local'),
  range('172.16.0.0/12', 'private network'),
  range('192.0.0.0/24', 'protocol assignments'),
  range('192.0.2.0/24', 'documentation'),
  range('192.88.99.0/24', '6to4 relay'),
  range('192.168.0.0/16', 'private network'),
  range('198.18.0.0/15', 'benchmarks'),
  range('198.51.100.0/24', 'documentation'),
  range('203.0.113.0/24', 'documentation'),
  range('224.0.0.0/4', 'multicast'),
  range('240.0.0.0/4', 'reserved and broadcast'),
  // A public address, but Azure serves VM configuration and certificates from it.
  range('168.63.129.16/32', 'Azure host'),
  range('64:ff9b:1::/48', 'NAT64 of a local network'),
  // Blocking the whole range saves us from recognizing every way to embed IPv4 in IPv6 (::1, ::ffff:a.b.c.d and so on).
  range('::/8', 'unspecified, loopback and embedded IPv4'),
  range('100::/64', 'discard-only'),
  range('2001::/23', 'protocol assignments, Teredo'),
  range('2001:db8::/32', 'documentation'),
  range('2002::/16', '6to4'),
  range('3fff::/20', 'documentation'),
  range('5f00::/16', 'segment routing'),
  range('fc00::/7', 'private network'),
  range('fe80::/10', 'link-local'),
  range('fec0::/10', 'site-local'),
  range('ff00::/8', 'multicast'),
]

/** NAT64 gateways map the IPv4 internet to this range, so we check the IPv4 address in the last 32 bits instead. */
const NAT64 = range('64:ff9b::/96', 'NAT64')
const IPV4_BITS = 0xffff_ffffn

/** How an IPv6 socket represents IPv4 addresses. */
const MAPPED = range('::ffff:0:0/96', 'IPv4-mapped')

/** Returns the blocked range that contains the address, or `undefined` if the address is public. */
export function findRefusedRange(address: ParsedAddress): AddressRange | undefined {
  const judged = lies(address, NAT64) ? readEmbedded(address) : address
  return REFUSED_RANGES.find((candidate) => lies(judged, candidate))
}

/**
 * Returns the first range that contains the address or the IPv4 address embedded in it.
 *
 * @returns the range, or `undefined` if none matches
 */
export function findRange(address: ParsedAddress, ranges: readonly AddressRange[]): AddressRange | undefined {
  const isEmbedding = lies(address, NAT64) || lies(address, MAPPED)
  const forms = isEmbedding ? [address, readEmbedded(address)] : [address]
  return ranges.find((candidate) => forms.some((form) => lies(form, candidate)))
}

function readEmbedded({ bits }: ParsedAddress): ParsedAddress {
  return { family: 4, bits: bits & IPV4_BITS }
}

function lies({ family, bits }: ParsedAddress, { family: rangeFamily, first, last }: AddressRange): boolean {
  return family === rangeFamily && bits >= first && bits <= last
}

/**
 * Parses an IP address.
 *
 * @returns the address, or `undefined` if the string isn't in canonical form. Unusual IPv4 spellings are rejected, as
 * are IPv6 addresses with a zone, which are never public
 */
export function parseAddress(text: string): ParsedAddress | undefined {
  if (isIPv4(text)) return { family: 4, bits: joinGroups(text.split('.'), 10, 8n) }
  if (isIPv6(text) && !text.includes('%')) return { family: 6, bits: joinGroups(expand(text), 16, 16n) }
  return undefined
}

/** Expands an IPv6 address to its eight hex groups. */
function expand(text: string): string[] {
  const [head = '', tail] = text.replace(/\d+\.\d+\.\d+\.\d+$/, writeAsGroups).split('::')
  const left = head === '' ? [] : head.split(':')
  if (tail === undefined) return left
  const right = tail === '' ? [] : tail.split(':')
  return [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right]
}

/** Rewrites a trailing dotted IPv4 address as two hex groups. */
function writeAsGroups(dotted: string): string {
  const bits = joinGroups(dotted.split('.'), 10, 8n)
  return `${(bits >> 16n).toString(16)}:${(bits & 0xffffn).toString(16)}`
}

function joinGroups(groups: readonly string[], radix: 10 | 16, width: bigint): bigint {
  return groups.reduce((bits, group) => (bits << width) | BigInt(Number.parseInt(group, radix)), 0n)
}

function range(cidr: string, purpose: string): AddressRange {
  const parsed = parseRange(cidr, purpose)
  if (!parsed) throw new TypeError(`Cannot read the range '${cidr}'`)
  return parsed
}

/**
 * Parses a CIDR range. A plain address becomes a single-address range.
 *
 * @returns the range, or `undefined` if it's invalid or has bits set outside the prefix, such as `10.1.2.3/8`
 */
export function parseRange(cidr: string, purpose: string): AddressRange | undefined {
  const [address = '', prefix, ...rest] = cidr.split('/')
  const parsed = parseAddress(address)
  if (!parsed || rest.length > 0) return undefined
  const width = parsed.family === 4 ? 32 : 128
  if (prefix !== undefined && !(/^(0|[1-9]\d{0,2})$/.test(prefix) && Number(prefix) <= width))
    return undefined
  const hostBits = (1n << BigInt(width - Number(prefix ?? width))) - 1n
  if ((parsed.bits & hostBits) !== 0n) return undefined
  return { cidr, purpose, family: parsed.family, first: parsed.bits, last: parsed.bits | hostBits }
}
