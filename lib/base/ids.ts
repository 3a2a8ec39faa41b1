import { randomFillSync } from 'node:crypto'
import { encodeTime, monotonicFactory } from 'ulid'

/** Returns milliseconds since 1970 in UTC. `Date.now`, except in tests. */
export type Clock = () => number

/** The prefix of an id, which names the kind of record: `cli_…` is a client. */
export type IdKind =
  | 'biz'
  | 'cli'
  | 'lead'
  | 'inv'
  | 'pay'
  | 'prop'
  | 'proj'
  | 'chg'
  | 'evt'
  | 'we'
  | 'dlv'
  | 'key'
  | 'aud'
  | 'evt_test'
  | 'req'

/** Returns whether a text is an id of a kind: `<kind>_<ulid>`. */
export function isIdOf(kind: IdKind, text: string): boolean {
  return text.startsWith(`${kind}_`) && ULID.test(text.slice(kind.length + 1))
}

/** 128 bits: the first of the 26 digits of five bits has two spare bits. */
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/

/**
 * Returns the text that ids of a kind made at a moment begin with: it sorts before each of them, and after all earlier ids.
 *
 * @param ms milliseconds since 1970; beyond the 48 bits of an id, the first or the last moment that an id can have
 */
export function idPrefixAt(kind: IdKind, ms: number): string {
  return `${kind}_${encodeTime(Math.min(Math.max(Math.trunc(ms), 0), ID_TIME_MAX), ID_TIME_DIGITS)}`
}

const ID_TIME_MAX = 2 ** 48 - 1
const ID_TIME_DIGITS = 10

/** Makes a new id of a kind: `<kind>_<ulid>`, later ids sorting after earlier ones of the same process. */
export type Ids = (kind: IdKind) => string

/**
 * Enough for 256 ids between two calls into the kernel; a call for each character would cost more than the rest of an
 * id.
 */
const RANDOM_POOL_BYTES = 4096

/**
 * Returns the function that makes the ids of the library. Ids are ULIDs, monotonic also when the clock stands still or
 * goes back, so that "newest first" is the order of the primary key and needs no other index. All ids by the system's
 * clock come from a single sequence for the whole process.
 *
 * @param clock milliseconds since 1970 in UTC. Default `Date.now`
 */
export function createIds(clock: Clock = Date.now): Ids {
  if (clock !== Date.now) return createSequence(clock)
  systemIds ??= createSequence(clock)
  return systemIds
}

let systemIds: Ids | undefined

function createSequence(clock: Clock): Ids {
  const ulid = monotonicFactory(createRandom())
  return (kind) => `${kind}_${ulid(clock())}`
}

function createRandom(): () => number {
  const pool = new Uint8Array(RANDOM_POOL_BYTES)
  let next = RANDOM_POOL_BYTES
  return () => {
    if (next === RANDOM_POOL_BYTES) {
      randomFillSync(pool)
      next = 0
    }
    return (pool[next++] ?? 0) / 256
  }
}
