import { parseAddress } from '../webhooks/address-ranges.ts'

/** The request in the form that option `peerAddress` receives. */
export interface PeerRequest {
  /** The remote address of the request's socket; undefined for a fetch request, because fetch has no sockets. */
  readonly remoteAddress: string | undefined
  /**
   * The value of a header, the values of a repeated header joined with `, `; `undefined` when absent.
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
 * Names the group of callers that share their turns: the callers of an IPv4 address, or of an IPv6 network of 64 bits, because
 * a single caller can use every address of such a network. All callers without an address make a further group.
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
