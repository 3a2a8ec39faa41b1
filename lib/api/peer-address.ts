import { parseAddress } from '../webhooks/address-ranges.ts'

/** A request, as passed to the `peerAddress` option. */
export interface PeerRequest {
  /** The socket's remote address, or `undefined` for fetch requests, which don't have a socket. */
  readonly remoteAddress: string | undefined
  /**
   * Returns a header's value, or `undefined` if it's absent. Repeated headers are joined with `, `.
   *
   * @param name must be lowercase
   */
  header(name: string): string | undefined
}

/** Maximum address length in characters, more than any real address needs. */
const TEXT_MAX = 64
const IPV4_MAPPED = 0xffffn
/** Number of host bits in an IPv6 address. */
const HOST_BITS = 64n

/**
 * Returns the group that a caller shares turns with. That's an IPv4 address or a 64-bit IPv6 network, because a single
 * caller can use every address in the network. Callers without an address form another group.
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
