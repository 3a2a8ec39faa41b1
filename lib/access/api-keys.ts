import { createHash, randomBytes } from 'node:crypto'
import { isRegExp } from 'node:util/types'
import { crc32 } from 'node:zlib'
import { rejectUnknown } from '../base/options.ts'
import type { Admission, AdmissionRequest } from './admission.ts'
import type { AuditedRequest } from './audit.ts'
import type { Insertion } from './insertion.ts'
import type { RateLimit } from './rate-limit.ts'
import type { KeyScope } from './scopes.ts'
import { SLOTS } from './slots.ts'

// --- Form ---

/** The number of base62 digits that a slot, 30 random bytes and a CRC32 need. */
const SLOT_DIGITS = 2
const SECRET_DIGITS = 41
const CHECKSUM_DIGITS = 6

/** Changes the checksum of keys that carry a slot. Older keys have 32 random bytes in place of slot and secret. */
const SLOT_MARK = 0x5107ab1e

/**
 * The shape of every API key, for secret scanners: `<prefix>_live_`, 2 base62 digits of the organization's slot, 41 of 30 random bytes, 6
 * of the CRC32 over all that precedes them, with a mark. The slot is public: it says on which shard a key may be.
 */
export const API_KEY_PATTERN: RegExp = /\b[a-z][a-z0-9]{0,15}_live_[0-9A-Za-z]{49}\b/

const WHOLE_KEY = new RegExp(`^${API_KEY_PATTERN.source}$`)

/** The default prefix of keys. Not `sk`, which secret scanners take for a key of another company. */
export const DEFAULT_KEY_PREFIX = 'bapi'

/** The shape of a key's prefix: a lower-case letter, then at most 15 lower-case letters or digits. */
export const API_KEY_PREFIX: RegExp = /^[a-z][a-z0-9]{0,15}$/

/**
 * Makes a new key. Only the returned value holds the key in full.
 *
 * @param prefix matches {@link API_KEY_PREFIX}
 * @param slot that of the key's organization: `slotOf`
 */
export function generateApiKey(prefix: string, slot: number): string {
  const secret = toBase62(BigInt(`0x${randomBytes(30).toString('hex')}`), SECRET_DIGITS)
  const unchecked = `${prefix}_live_${toBase62(BigInt(slot), SLOT_DIGITS)}${secret}`
  return unchecked + checksum(unchecked, SLOT_MARK)
}

/**
 * Reads the form of a key, so that a typing error costs no round trip.
 *
 * @returns the slot that the key carries, null for an older key without one; undefined for a text without the shape or checksum of a key
 */
export function readApiKey(text: string): number | null | undefined {
  if (!WHOLE_KEY.test(text)) return undefined
  const unchecked = text.slice(0, -CHECKSUM_DIGITS)
  const given = text.slice(-CHECKSUM_DIGITS)
  if (given === checksum(unchecked)) return null
  const slot = fromBase62(unchecked.slice(-SECRET_DIGITS - SLOT_DIGITS, -SECRET_DIGITS))
  return given === checksum(unchecked, SLOT_MARK) && slot < SLOTS ? slot : undefined
}

/** The keys of the host's earlier API, which `apiKeys.import` takes over. */
export interface ImportedKeys {
  /**
   * Matches these keys, of at most 249 characters without white space and commas. A key of another form gets 401 without a lookup.
   * Anyone can send strings that run against the pattern: a nested repetition, for example `(a+)+`, would let a caller stop the
   * process.
   */
  readonly pattern: RegExp
}

/** Reads the option `importedKeys`. @throws `TypeError` */
export function readImportedKeys(option: ImportedKeys | undefined): ImportedKeys | undefined {
  if (option === undefined) return undefined
  rejectUnknown(option, { pattern: true }, 'importedKeys.')
  const { pattern } = option
  if (!isRegExp(pattern)) {
    throw new TypeError("Cannot use option 'importedKeys.pattern' because it must be a regular expression")
  }
  // Without the flags that remember the place of the last match.
  return { pattern: new RegExp(pattern, pattern.flags.replace(/[gy]/g, '')) }
}

/** Returns the digest of a key, the only form in which a key is stored or compared: SHA-256, lower-case hex. */
export function digestApiKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

function checksum(text: string, mark = 0): string {
  return toBase62(BigInt((crc32(text) ^ mark) >>> 0), CHECKSUM_DIGITS)
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function toBase62(value: bigint, digits: number): string {
  let text = ''
  for (let rest = value; text.length < digits; rest /= 62n) {
    text = BASE62.charAt(Number(rest % 62n)) + text
  }
  return text
}

function fromBase62(text: string): number {
  return [...text].reduce((value, digit) => value * 62 + BASE62.indexOf(digit), 0)
}

// --- Types ---

/** An API key without its secret, for administrators. */
export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  /** The part before the secret digits: `bapi_live_`. */
  readonly prefix: string
  /** The last four characters, to tell keys apart. */
  readonly lastFour: string
  /** The rate limit of this key; null: the API's limit for keys. */
  readonly rateLimit: RateLimit | null
  readonly createdAt: string
  /** Null: never. */
  readonly expiresAt: string | null
  /** Null: active. */
  readonly revokedAt: string | null
  /** The key that replaces this key; null: not rotated. */
  readonly successorId: string | null
  /** Exact to a minute; null: never used. */
  readonly lastUsedAt: string | null
}

/** Returns why a key is not active; null for a key active. */
export function endOfKey(
  { revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>,
  now: number,
): 'revoked' | 'expired' | null {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= now ? 'expired' : null
}

/** A new key in the form that a store keeps. */
export interface ApiKeyRecord extends Omit<ApiKey, 'revokedAt' | 'successorId' | 'lastUsedAt'> {
  readonly digest: string
}

/** A key that replaces another key, with the name, scopes and rate limit of the replaced key. */
export interface ApiKeySuccessor
  extends Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'> {
  /** Absent: the expiry of the replaced key. */
  readonly expiresAt?: string | null
}

/**
 * The outcome of a rotation, with the present state of the previous key:
 *
 * - `rotated`: `key` is the successor. An earlier call for the same rotation, whose result was lost, counts too.
 * - `already_exists`: the successor's id belongs to another key, which is `key`.
 * - `refused`: the previous key is not active, or has another successor.
 * - `limit_reached`: the organization has as many keys active as the limit allows.
 */
export type ApiKeyRotation =
  | { readonly outcome: 'rotated' | 'already_exists'; readonly key: ApiKey; readonly previous: ApiKey }
  | { readonly outcome: 'refused' | 'limit_reached'; readonly key: null; readonly previous: ApiKey }

/** Asks for a new key. */
export interface ApiKeyInsertion extends AuditedRequest {
  readonly key: ApiKeyRecord
  /** Maximum number of keys active in the organization, the new key included. */
  readonly limit: number
  /** The digest is that of a key that was not generated here, and may be the digest of another key. */
  readonly isImported?: true
}

/** Changes what people call a key. */
export interface ApiKeyChange extends AuditedRequest {
  readonly keyId: string
  readonly name: string
  /** If the key has another name, nothing is changed. Undefined: any name. */
  readonly replaces?: string | undefined
}

/** Names a key that a change is made of. */
export interface ApiKeyRevocation extends AuditedRequest {
  readonly keyId: string
}

/** Asks for the successor of a key. */
export interface ApiKeyReplacement extends AuditedRequest {
  readonly keyId: string
  readonly successor: ApiKeySuccessor
  /**
   * Milliseconds, by the store's clock, for which the previous key stays active too; 0: the previous key is revoked.
   */
  readonly overlapMs: number
  /** Maximum number of keys active in the organization, with the successor. A rotation without overlap adds no key. */
  readonly limit: number
}

/** Sets the limit of an organization. */
export interface OrganizationLimit extends AuditedRequest {
  /** Null: the API's limit. */
  readonly rateLimit: RateLimit | null
}

// --- Store ---

/**
 * The slice of a store for API keys. A key's state is never cached: the next request on any process must see a change.
 */
export interface ApiKeyStore {
  /**
   * Finds the organizations of keys, in one step for many digests, most of which may be invented. The result orders the
   * requests and admits none: `admit` judges every request.
   *
   * @param slots the slots that the keys carry: a shard tells which organizations of these slots have moved
   * @returns organization ids by digest, of the keys active by the store's clock
   */
  identify(digests: readonly string[], slots?: readonly number[]): Promise<ReadonlyMap<string, string>>

  /** Judges a request by the key, the two rate limits and the scope, in that order, as one atomic step. */
  admit(request: AdmissionRequest): Promise<Admission>

  /** Records that a key was used now; does nothing when that was recorded within the last minute. */
  markUsed(organizationId: string, keyId: string): Promise<void>

  /**
   * Inserts a key, unless the id is taken or the limit reached: exact also among calls at the same time. A stored key
   * with the same id and digest is the same key. If another key of any organization has the digest, revoked or expired or active,
   * the outcome is `already_exists` without the item. A limit below the present number of keys ends no key.
   */
  insert(request: ApiKeyInsertion): Promise<Insertion<ApiKey>>

  /** Reads a key, even if revoked or expired; `null` if there is no such key. */
  get(organizationId: string, keyId: string): Promise<ApiKey | null>

  /** Lists all keys of the organization, newest first, with revoked and expired keys. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Gives a key another name, also a revoked or expired one. A call that is sent again undoes no later change.
   *
   * @returns the present state of the key; `null` if there is no such key
   */
  update(request: ApiKeyChange): Promise<ApiKey | null>

  /** Revokes a key from now on, by the store's clock; an earlier revocation stands. `null` if there is no such key. */
  revoke(request: ApiKeyRevocation): Promise<ApiKey | null>

  /**
   * Makes the successor of a key that is active and has no successor; of two calls at the same time only one makes a
   * successor. The previous key ends after `overlapMs` by the store's clock or at its own expiry, if that is earlier;
   * without overlap the previous key is revoked.
   *
   * @returns `null` if there is no such key
   */
  rotate(request: ApiKeyReplacement): Promise<ApiKeyRotation | null>

  /** Sets the limit for all keys of the organization together; `null` returns to the API's limit, with a full bucket. */
  limitOrganization(request: OrganizationLimit): Promise<void>

  /** Reads the limit that was set for all keys of the organization together; `null`: the API's limit. */
  getOrganizationLimit(organizationId: string): Promise<RateLimit | null>
}
