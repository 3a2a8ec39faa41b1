// The slot of an organization: the remainder by which PostgreSQL places a text in a table partitioned by hash. So the host's own
// tables, and a router that knows PostgreSQL's partitions, place the same organization alike. The hash is Jenkins' lookup3 with
// PostgreSQL's seed over the bytes of the text in UTF-8, as servers on little-endian machines compute it, in 32-bit arithmetic.

/** Number of slots. Fixed: with another number, most organizations would have another slot. */
export const SLOTS = 1024

/** PostgreSQL's HASH_PARTITION_SEED, 0x7A5B22367996DCFD, in two halves. */
const SEED_HIGH = 0x7a5b2236
const SEED_LOW = 0x7996dcfd
/** The lowest bits of the number that hash_combine64 adds to the hash of the only column. */
const COMBINED = 0x5a8e3

/** Returns the slot of an organization: a whole number from 0 to 1023. */
export function slotOf(organizationId: string): number {
  return (hashLow(Buffer.from(organizationId)) + COMBINED) & (SLOTS - 1)
}

/** Computes the lower half of PostgreSQL's hash_bytes_extended. The slot depends on the lowest ten bits only. */
function hashLow(bytes: Buffer): number {
  const start = (0x9e3779b9 + bytes.length + 3923095) | 0
  let [a, b, c] = mix((start + SEED_HIGH) | 0, (start + SEED_LOW) | 0, start)
  let at = 0
  for (; bytes.length - at >= 12; at += 12) {
    ;[a, b, c] = mix(
      (a + bytes.readInt32LE(at)) | 0,
      (b + bytes.readInt32LE(at + 4)) | 0,
      (c + bytes.readInt32LE(at + 8)) | 0,
    )
  }
  // The lowest byte of `c` is left to the length.
  const rest = Buffer.alloc(12)
  rest.set(bytes.subarray(at, at + 8))
  rest.set(bytes.subarray(at + 8), 9)
  return finish((a + rest.readInt32LE(0)) | 0, (b + rest.readInt32LE(4)) | 0, (c + rest.readInt32LE(8)) | 0)
}

type Words = readonly [number, number, number]

function mix(a: number, b: number, c: number): Words {
  let [x, y, z] = [a, b, c]
  for (const [first, second, third] of ROTATIONS) {
    x = ((x - z) | 0) ^ rotate(z, first)
    z = (z + y) | 0
    y = ((y - x) | 0) ^ rotate(x, second)
    x = (x + z) | 0
    z = ((z - y) | 0) ^ rotate(y, third)
    y = (y + x) | 0
  }
  return [x, y, z]
}

const ROTATIONS = [
  [4, 6, 8],
  [16, 19, 4],
] as const

function finish(a: number, b: number, c: number): number {
  let [x, y, z] = [a, b, c]
  z = ((z ^ y) - rotate(y, 14)) | 0
  x = ((x ^ z) - rotate(z, 11)) | 0
  y = ((y ^ x) - rotate(x, 25)) | 0
  z = ((z ^ y) - rotate(y, 16)) | 0
  x = ((x ^ z) - rotate(z, 4)) | 0
  y = ((y ^ x) - rotate(x, 14)) | 0
  return ((z ^ y) - rotate(y, 24)) | 0
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}
