// An organization's slot is the remainder PostgreSQL uses to pick the hash partition for a string. This way, tables in
// the host's database and routers that know PostgreSQL's partitioning place an organization in the same slot. The hash
// is Jenkins' lookup3 over the string's UTF-8 bytes, with PostgreSQL's seed, as computed on little-endian servers.

/** The number of slots. This can never change because most organizations would end up in a different slot. */
export const SLOTS = 1024

/** PostgreSQL's HASH_PARTITION_SEED (0x7A5B22367996DCFD), split in two. */
const SEED_HIGH = 0x7a5b2236
const SEED_LOW = 0x7996dcfd
/** The low bits of the constant that hash_combine64 adds when there's only one hash column. */
const COMBINED = 0x5a8e3

/**
 * Returns an organization's slot, from 0 to 1023.
 *
 * @example
 * ```ts
 * const { [slotOf('org_42')]: name } = slots   // the shard's name in your own copy of the map
 * ```
 */
export function slotOf(organizationId: string): number {
  if (typeof organizationId !== 'string')
    throw new TypeError("Cannot find the slot because the organization's id must be a string")
  // Only the lower half of the hash determines the slot.
  return (hash(Buffer.from(organizationId)) + COMBINED) & (SLOTS - 1)
}

/** The hash state's three words. The Int32Array truncates each sum to 32 bits. */
type Words = Int32Array & { 0: number; 1: number; 2: number }

function hash(bytes: Buffer): number {
  const words = new Int32Array(3).fill(0x9e3779b9 + bytes.length + 3923095) as Words
  words[0] += SEED_HIGH
  words[1] += SEED_LOW
  mix(words)
  let at = 0
  for (; bytes.length - at >= 12; at += 12) {
    add(words, bytes, at)
    mix(words)
  }
  // The third word's lowest byte is reserved for the length.
  const rest = Buffer.alloc(12)
  rest.set(bytes.subarray(at, at + 8))
  rest.set(bytes.subarray(at + 8), 9)
  add(words, rest, 0)
  for (const [round, bits] of [14, 11, 25, 16, 4, 14, 24].entries()) {
    const [target, other] = [((round + 2) % 3) as 0, ((round + 1) % 3) as 0]
    words[target] = (words[target] ^ words[other]) - rotate(words[other], bits)
  }
  return words[2]
}

function add(words: Words, bytes: Buffer, at: number): void {
  for (const word of [0, 1, 2] as const) words[word] += bytes.readInt32LE(at + 4 * word)
}

function mix(words: Words): void {
  for (const [round, bits] of [4, 6, 8, 16, 19, 4].entries()) {
    const [target, before, next] = [(round % 3) as 0, ((round + 2) % 3) as 0, ((round + 1) % 3) as 0]
    words[target] = (words[target] - words[before]) ^ rotate(words[before], bits)
    words[before] += words[next]
  }
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}
