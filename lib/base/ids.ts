import { randomFillSync } from 'node:crypto'
import { encodeTime, monotonicFactory } from 'ulid'
import { readFunction } from './options.ts'

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

/** Returns whether a string is an id of a kind: `<kind>_<ulid>`. */
export function isIdOf(kind: IdKind, text: string): boolean {
  return text.startsWith(`${kind}_`) && ULID.test(text.slice(kind.length + 1))
}

/** 128 bits: 26 digits of five bits have two spare bits, in the first digit. */
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/

/**
 * Returns the prefix of a kind's ids made at a given time: it sorts before each of them, and after all earlier ids.
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
 * Creates the function that makes the library's ids: ULIDs after a prefix, monotonic even if the clock stands still or goes back. So newest
 * first is the order of the primary key, and no other index is needed. With the system clock, all ids of a process come from one sequence.
 *
 * @param clock milliseconds since 1970, UTC. Default `Date.now`
 * @example
 * ```ts
 * const id = createIds()('key')   // 'key_01K…'
 * ```
 */
export function createIds(clock: Clock = Date.now): Ids {
  if (clock !== Date.now) return createSequence(clock)
  systemIds ??= createSequence(clock)
  return systemIds
}

let systemIds: Ids | undefined

/**
 * Reads the option `ids` of a host. The host's function is called only for an id that is needed, so each id is checked when it
 * is made: a list that continues after an id of another form would be rejected on the next page. An id of a request is in no list.
 *
 * @param ids of the host; `undefined` for the ids of {@link createIds}
 * @returns throws `TypeError` for an id that is no `<kind>_` and 1 to 59 letters, digits, hyphens and underscores; an id of an audit
 *   entry must be a ULID after the prefix, because a period of the audit is found by the time in the ids
 */
export function readIds(ids: Ids | undefined, clock: Clock): Ids {
  readFunction('clock', clock)
  readFunction('ids', ids)
  if (ids === undefined) return createIds(clock)
  return (kind) => {
    const id: unknown = ids(kind)
    if (kind === 'req' || (typeof id === 'string' && isUsable(kind, id))) return id as string
    const form = kind === 'aud' ? 'a ULID, 26 digits and capital letters' : AFTER_PREFIX_TEXT
    throw new TypeError(
      `Cannot use option 'ids' because it must make ids of ${kind}_ and ${form}: it made ${name(id)}`,
    )
  }
}

const AFTER_PREFIX = /^[\w-]{1,59}$/
const AFTER_PREFIX_TEXT = '1 to 59 letters, digits, hyphens and underscores'
const NAMED_MAX = 50

function isUsable(kind: IdKind, id: string): boolean {
  if (kind === 'aud') return isIdOf(kind, id)
  return id.startsWith(`${kind}_`) && AFTER_PREFIX.test(id.slice(kind.length + 1))
}

function name(id: unknown): string {
  if (typeof id === 'string') return id.length > NAMED_MAX ? `'${id.slice(0, NAMED_MAX)}…'` : `'${id}'`
  return typeof id === 'object' && id !== null ? 'an object' : String(id)
}

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
