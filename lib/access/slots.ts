// The slot of an organization: the remainder by which PostgreSQL places a text in a table partitioned by hash. So the host's own
// tables, and a router that knows PostgreSQL's partitions, place the same organization alike. The hash is Jenkins' lookup3 with
// PostgreSQL's seed over the bytes of the text in UTF-8, as servers on little-endian machines compute it.

/** Number of slots. Fixed: with another number, most organizations would have another slot. */
export const SLOTS = 1024

/** PostgreSQL's HASH_PARTITION_SEED, 0x7A5B22367996DCFD, in two halves. */
const SEED_HIGH = 0x7a5b2236
const SEED_LOW = 0x7996dcfd
/** The lowest bits of the number that hash_combine64 adds to the hash of the only column. */
const COMBINED = 0x5a8e3

/**
 * Returns an organization's slot, 0 to 1023.
 *
 * @example
 * ```ts
 * const { [slotOf('org_42')]: name } = slots   // the shard's name in your own copy of the map
 * ```
 */
export function slotOf(organizationId: string): number {
  // The slot depends on the lower half of the hash only.
  return (hash(Buffer.from(organizationId)) + COMBINED) & (SLOTS - 1)
}

/** The three words of the hash. An Int32Array keeps 32 bits of every sum. */
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
  // The lowest byte of the third word is left to the length.
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
