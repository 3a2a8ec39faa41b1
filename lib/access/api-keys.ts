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

/** The number of base62 digits for the slot. The constants below are for 30 random bytes and a CRC32. */
const SLOT_DIGITS = 2
const SECRET_DIGITS = 41
const CHECKSUM_DIGITS = 6

/** XORed into the checksum of keys that contain a slot. Older keys have 32 random bytes instead of slot and secret. */
const SLOT_MARK = 0x5107ab1e

/**
 * Matches all API keys, for example for secret scanners. A key consists of `<prefix>_live_`, 2 base62 digits for the
 * organization's slot, 41 digits for 30 random bytes, and 6 digits for a CRC32 with a mark for keys with a slot. The
 * slot is public because it only leads to the shard.
 */
export const API_KEY_PATTERN: RegExp = /\b[a-z][a-z0-9]{0,15}_live_[0-9A-Za-z]{49}\b/

const WHOLE_KEY = new RegExp(`^${API_KEY_PATTERN.source}$`)

/** The default key prefix. We don't use `sk` because secret scanners would attribute the key to another company. */
export const DEFAULT_KEY_PREFIX = 'bapi'

/** Matches the prefix of a key, which is a lowercase letter followed by up to 15 lowercase letters or digits. */
export const API_KEY_PREFIX: RegExp = /^[a-z][a-z0-9]{0,15}$/

/**
 * Generates a new key. The full key exists only in the returned string.
 *
 * @param prefix must match {@link API_KEY_PREFIX}
 * @param slot the slot of the key's organization, see `slotOf`
 */
export function generateApiKey(prefix: string, slot: number): string {
  const secret = toBase62(BigInt(`0x${randomBytes(30).toString('hex')}`), SECRET_DIGITS)
  const unchecked = `${prefix}_live_${toBase62(BigInt(slot), SLOT_DIGITS)}${secret}`
  return unchecked + checksum(unchecked, SLOT_MARK)
}

/**
 * Checks a key's format, so a typo doesn't cost a database query.
 *
 * @returns the key's slot, or `null` for an older key without a slot, or `undefined` if the format or checksum is wrong
 */
export function readApiKey(text: string): number | null | undefined {
  if (!WHOLE_KEY.test(text)) return undefined
  const unchecked = text.slice(0, -CHECKSUM_DIGITS)
  const given = text.slice(-CHECKSUM_DIGITS)
  if (given === checksum(unchecked)) return null
  const slot = fromBase62(unchecked.slice(-SECRET_DIGITS - SLOT_DIGITS, -SECRET_DIGITS))
  return given === checksum(unchecked, SLOT_MARK) && slot < SLOTS ? slot : undefined
}

/** Describes the keys of your previous API, which can be imported with `apiKeys.import`. */
export interface ImportedKeys {
  /**
   * Matches these keys. They can have up to 249 characters and no white space or commas. Other keys are rejected with
   * 401 without a lookup. Because anyone can send strings to this pattern, don't use nested repetitions such as
   * `(a+)+`, which would let a caller block the process.
   */
  readonly pattern: RegExp
}

/** Reads the `importedKeys` option. @throws `TypeError` */
export function readImportedKeys(option: ImportedKeys | undefined): ImportedKeys | undefined {
  if (option === undefined) return undefined
  rejectUnknown(option, { pattern: true }, 'importedKeys.')
  const { pattern } = option
  if (!isRegExp(pattern)) {
    throw new TypeError("Cannot use option 'importedKeys.pattern' because it must be a regular expression")
  }
  // Drop the flags that make a regular expression stateful.
  return { pattern: new RegExp(pattern, pattern.flags.replace(/[gy]/g, '')) }
}

/** Returns the digest of a key (SHA-256 in lowercase hex). Keys are only stored and compared in this form. */
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

/** An API key as shown to administrators, without its secret. */
export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  /** The part before the secret digits, for example `bapi_live_`. */
  readonly prefix: string
  /** The last four characters. They help to tell keys apart. */
  readonly lastFour: string
  /** The rate limit of this key, or `null` to use the API's limit for keys. */
  readonly rateLimit: RateLimit | null
  readonly createdAt: string
  /** `null` if the key never expires. */
  readonly expiresAt: string | null
  /** `null` if the key isn't revoked. */
  readonly revokedAt: string | null
  /** The key that replaces this one, or `null` if the key wasn't rotated. */
  readonly successorId: string | null
  /** Accurate to the minute. `null` if the key was never used. */
  readonly lastUsedAt: string | null
}

/** Returns why a key is no longer active, or `null` if it is active. */
export function endOfKey(
  { revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>,
  now: number,
): 'revoked' | 'expired' | null {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= now ? 'expired' : null
}

/** A new key as it is stored. */
export interface ApiKeyRecord extends Omit<ApiKey, 'revokedAt' | 'successorId' | 'lastUsedAt'> {
  readonly digest: string
}

/** A key that replaces another key, with the same name, scopes and rate limit. */
export interface ApiKeySuccessor
  extends Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'> {
  /** If absent, the new key expires when the old one would have. */
  readonly expiresAt?: string | null
}

/**
 * The outcome of a rotation. `previous` is the current state of the old key.
 *
 * - `rotated`: `key` is the successor, created by this call or by an earlier one whose result was lost.
 * - `already_exists`: the successor's id belongs to another key, which is returned as `key`.
 * - `refused`: the old key isn't active or already has a different successor.
 * - `limit_reached`: the organization has the maximum number of active keys.
 */
export type ApiKeyRotation =
  | { readonly outcome: 'rotated' | 'already_exists'; readonly key: ApiKey; readonly previous: ApiKey }
  | { readonly outcome: 'refused' | 'limit_reached'; readonly key: null; readonly previous: ApiKey }

/** A request to insert a new key. */
export interface ApiKeyInsertion extends AuditedRequest {
  readonly key: ApiKeyRecord
  /** The maximum number of active keys in the organization, including the new one. */
  readonly limit: number
  /** If `true`, the key wasn't generated here, so another key might already have its digest. */
  readonly isImported?: true
}

/** A request to rename a key. */
export interface ApiKeyChange extends AuditedRequest {
  readonly keyId: string
  readonly name: string
  /** Only rename the key if this is the current name. If `undefined`, always rename it. */
  readonly replaces?: string | undefined
}

/** A request to revoke a key. */
export interface ApiKeyRevocation extends AuditedRequest {
  readonly keyId: string
}

/** A request to replace a key. */
export interface ApiKeyReplacement extends AuditedRequest {
  readonly keyId: string
  readonly successor: ApiKeySuccessor
  /** How long the old key stays active, in ms by the store's clock. If 0, it's revoked immediately. */
  readonly overlapMs: number
  /** The maximum number of active keys including the successor. A rotation without overlap doesn't add a key. */
  readonly limit: number
}

/** A request to set an organization's rate limit. */
export interface OrganizationLimit extends AuditedRequest {
  /** `null` to use the API's limit. */
  readonly rateLimit: RateLimit | null
}

// --- Store ---

/** The part of a store that manages API keys. Keys must not be cached because changes take effect immediately. */
export interface ApiKeyStore {
  /**
   * Looks up the organizations of many key digests at once, most of which may be made up. This is only used to schedule
   * requests. It doesn't admit them because `admit` still checks each one.
   *
   * @param slots the slots found in the keys. A shard uses them to tell which organizations have moved
   * @returns the organization ids of currently active keys by digest
   */
  identify(digests: readonly string[], slots?: readonly number[]): Promise<ReadonlyMap<string, string>>

  /** Checks the API key, both rate limits and the scope of a request, in this order, in one atomic step. */
  admit(request: AdmissionRequest): Promise<Admission>

  /** Records that a key was just used. Does nothing if a use was already recorded within the last minute. */
  markUsed(organizationId: string, keyId: string): Promise<void>

  /**
   * Inserts a key unless its id is taken or the limit is reached, even if calls are concurrent. A stored key with the
   * same id and digest counts as the same key. If any other key of any organization has this digest, active or not, the
   * outcome is `already_exists` without the item. Lowering the limit doesn't revoke any keys.
   */
  insert(request: ApiKeyInsertion): Promise<Insertion<ApiKey>>

  /** Returns a key, even if revoked or expired, or `null` if there is no such key. */
  get(organizationId: string, keyId: string): Promise<ApiKey | null>

  /** Lists all keys of the organization, including revoked and expired ones, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Renames a key, even if revoked or expired. Repeating a call doesn't undo later changes.
   *
   * @returns the key in its current state, or `null` if there is no such key
   */
  update(request: ApiKeyChange): Promise<ApiKey | null>

  /** Revokes a key by the store's clock. An earlier revocation is kept. Returns `null` if the key doesn't exist. */
  revoke(request: ApiKeyRevocation): Promise<ApiKey | null>

  /**
   * Replaces an active key that has no successor yet. If two calls run at the same time, only one creates a
   * successor. The old key ends after `overlapMs` by the store's clock, or when it expires if that is earlier.
   * Without an overlap, it's revoked.
   *
   * @returns `null` if the key doesn't exist
   */
  rotate(request: ApiKeyReplacement): Promise<ApiKeyRotation | null>

  /** Sets the limit shared by all keys of the organization. `null` restores the API's limit, with a full bucket. */
  limitOrganization(request: OrganizationLimit): Promise<void>

  /**
   * Returns how long each API key's bucket takes until it is full again.
   *
   * @returns milliseconds by key ID, without keys whose bucket is full
   */
  readResets(organizationId: string): Promise<Readonly<Record<string, number>>>

  /** Returns the limit set for all keys of the organization together, or `null` if it uses the API's limit. */
  getOrganizationLimit(organizationId: string): Promise<RateLimit | null>
}
