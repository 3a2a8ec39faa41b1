import { parseAddress } from '../webhooks/address-ranges.ts'

/** A request as the option `peerAddress` sees it. */
export interface PeerRequest {
  /** The address at the other end of the request's socket; undefined for a fetch request, which has none. */
  readonly remoteAddress: string | undefined
  /**
   * The value of a header, repeated ones joined with `, `; `undefined` when absent.
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
}

/** Longer than any address. */
const TEXT_MAX = 64
const IPV4_MAPPED = 0xffffn
/** The bits of an IPv6 address that a network gives to its computers. */
const HOST_BITS = 64n

/**
 * Names the group of callers that take turns as one: the callers of one IPv4 address, or of one IPv6 network of 64 bits, where
 * a single caller can use every address. All callers without an address are one group.
 */
export function peerOf(address: string | undefined): string {
  if (typeof address !== 'string') return ''
  const parsed = parseAddress(address)
  if (parsed?.family !== 6) return address.slice(0, TEXT_MAX)
  if (parsed.bits >> 32n === IPV4_MAPPED) return toIPv4(Number(parsed.bits & 0xffff_ffffn))
  return `${(parsed.bits >> HOST_BITS).toString(16)}/64`
}

function toIPv4(bits: number): string {
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).join('.')
}
