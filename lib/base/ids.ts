import { randomFillSync } from 'node:crypto'
import { encodeTime, monotonicFactory } from 'ulid'
import { readFunction } from './options.ts'

/** Returns the current time in milliseconds since 1970 (UTC). This is `Date.now` except in tests. */
export type Clock = () => number

/** An id's prefix, which tells you the kind of record. For example, `cli_…` is a client. */
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

/** Returns `true` if a string is an id of the given kind (`<kind>_<ulid>`). */
export function isIdOf(kind: IdKind, text: string): boolean {
  return text.startsWith(`${kind}_`) && ULID.test(text.slice(kind.length + 1))
}

/** A ULID is 128 bits in 26 base32 digits. The first digit is always 0 to 7 because two of the 130 bits are unused. */
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/

/**
 * Returns a prefix that sorts before every id created at or after a given time, and after all earlier ids.
 *
 * @param ms milliseconds since 1970, clamped to the 48-bit range of an id's timestamp
 */
export function idPrefixAt(kind: IdKind, ms: number): string {
  return `${kind}_${encodeTime(Math.min(Math.max(Math.trunc(ms), 0), ID_TIME_MAX), ID_TIME_DIGITS)}`
}

const ID_TIME_MAX = 2 ** 48 - 1
const ID_TIME_DIGITS = 10

/** Creates an id in the format `<kind>_<ulid>`. Within a process, later ids sort after earlier ones. */
export type Ids = (kind: IdKind) => string

/** Size of the random pool in bytes, enough for 256 ids. A syscall per character would be slow. */
const RANDOM_POOL_BYTES = 4096

/**
 * Creates the default id generator. Ids are prefixed ULIDs that always increase, even if the clock stops or goes
 * back, so sorting by primary key sorts by creation time. Generators that use the system clock share one
 * sequence per process.
 *
 * @param clock returns milliseconds since 1970 (UTC). Defaults to `Date.now`
 *
 * @example
 * ```ts
 * const id = createIds()('key')   // 'key_01K…'
 * ```
 */
export function createIds(clock: Clock = Date.now): Ids {
  readFunction('clock', clock)
  if (clock !== Date.now) return createSequence(clock)
  systemIds ??= createSequence(clock)
  return systemIds
}

let systemIds: Ids | undefined

/**
 * Reads the host's `ids` option. We check each id as it's created, because an id in another format would break
 * pagination. Request ids are checked by the API.
 *
 * @param ids the host's function, or `undefined` to use {@link createIds}
 * @returns a function that throws a `TypeError` unless the id is `<kind>_` followed by 1 to 59 letters, digits, hyphens
 *   or underscores. Audit entry ids must contain a ULID, because we search the audit log by the time in the id
 */
export function readIds(ids: Ids | undefined, clock: Clock): Ids {
  readFunction('clock', clock)
  readFunction('ids', ids)
  if (ids === undefined) return createIds(clock)
  return (kind) => {
    const id: unknown = ids(kind)
    if (kind === 'req' || (typeof id === 'string' && isUsable(kind, id))) return id as string
    const form = kind === 'aud' ? 'a ULID, 26 digits and capital letters' : AFTER_PREFIX_TEXT
    throw new TypeError(`Option 'ids' must make ids of ${kind}_ and ${form}: it made ${name(id)}`)
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
