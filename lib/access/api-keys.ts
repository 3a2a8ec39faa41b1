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

// --- Format ---

/** Number of base62 digits in the slot. The constants below fit 30 random bytes and a CRC32. */
const SLOT_DIGITS = 2
const SECRET_DIGITS = 41
const CHECKSUM_DIGITS = 6

/** XORed into the checksum if a key has a slot. Older keys have 32 random bytes in place of the slot and secret. */
const SLOT_MARK = 0x5107ab1e

/**
 * Matches every API key, for example in a secret scanner. A key is `<prefix>_live_`, 2 base62 digits for the
 * organization's slot, 41 digits for 30 random bytes, and 6 digits for a CRC32 (marked if the key has a slot). The slot
 * doesn't have to be secret, since it only identifies the shard.
 */
export const API_KEY_PATTERN: RegExp = /\b[a-z][a-z0-9]{0,15}_live_[0-9A-Za-z]{49}\b/

const WHOLE_KEY = new RegExp(`^${API_KEY_PATTERN.source}$`)

/** The default key prefix. We don't use `sk` because secret scanners would attribute our keys to another company. */
export const DEFAULT_KEY_PREFIX = 'bapi'

/** Matches a valid key prefix: a lowercase letter followed by up to 15 lowercase letters or digits. */
export const API_KEY_PREFIX: RegExp = /^[a-z][a-z0-9]{0,15}$/

/**
 * Generates a new key. The return value is the only place where the full key exists.
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
 * Validates a key's format and checksum, so typos don't cost a database query.
 *
 * @returns the key's slot, `null` for an older key that has no slot, or `undefined` if the format or checksum is wrong
 */
export function readApiKey(text: string): number | null | undefined {
  if (!WHOLE_KEY.test(text)) return undefined
  const unchecked = text.slice(0, -CHECKSUM_DIGITS)
  const given = text.slice(-CHECKSUM_DIGITS)
  if (given === checksum(unchecked)) return null
  const slot = fromBase62(unchecked.slice(-SECRET_DIGITS - SLOT_DIGITS, -SECRET_DIGITS))
  return given === checksum(unchecked, SLOT_MARK) && slot < SLOTS ? slot : undefined
}

/** Describes keys from your previous API, for use with `apiKeys.import`. */
export interface ImportedKeys {
  /**
   * Matches the imported keys. Keys can have up to 249 characters and must not contain whitespace or commas. Anything
   * that doesn't match is rejected with a 401 without a lookup. Anyone can send strings to this pattern, so don't use
   * nested repetition like `(a+)+`, or a caller could block the process.
   */
  readonly pattern: RegExp
}

/** Reads the `importedKeys` option. @throws `TypeError` */
export function readImportedKeys(option: ImportedKeys | undefined): ImportedKeys | undefined {
  if (option === undefined) return undefined
  rejectUnknown(option, { pattern: true }, 'importedKeys.')
  const { pattern } = option
  if (!isRegExp(pattern)) {
    throw new TypeError("Option 'importedKeys.pattern' must be a regular expression")
  }
  // Drop the flags that would make the regular expression stateful.
  return { pattern: new RegExp(pattern, pattern.flags.replace(/[gy]/g, '')) }
}

/** Returns a key's digest (SHA-256 in lowercase hex). Keys are only stored and compared as digests. */
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

/** An API key without the secret, as shown to administrators. */
export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  /** Everything before the secret digits, for example `bapi_live_`. */
  readonly prefix: string
  /** The last four characters, to help tell keys apart. */
  readonly lastFour: string
  /** The key's custom rate limit, or `null` if the API's default applies. */
  readonly rateLimit: RateLimit | null
  readonly createdAt: string
  /** `null` if the key never expires. */
  readonly expiresAt: string | null
  /** `null` unless the key was revoked. */
  readonly revokedAt: string | null
  /** The key that replaced this one, or `null` if the key wasn't rotated. */
  readonly successorId: string | null
  /** Accurate to the minute. `null` if the key was never used. */
  readonly lastUsedAt: string | null
}

/** Returns why a key is no longer active, or `null` if it's still active. */
export function endOfKey(
  { revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>,
  now: number,
): 'revoked' | 'expired' | null {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= now ? 'expired' : null
}

/** A new key to store. */
export interface ApiKeyRecord extends Omit<ApiKey, 'revokedAt' | 'successorId' | 'lastUsedAt'> {
  readonly digest: string
}

/** A key that replaces another one. Keeps the old key's name, scopes and rate limit. */
export interface ApiKeySuccessor
  extends Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'> {
  /** Defaults to the old key's expiry time. */
  readonly expiresAt?: string | null
}

/**
 * The outcome of a rotation. `previous` is the old key in its current state.
 *
 * - `rotated`: `key` is the successor, created by this call or by an earlier call whose result was lost.
 * - `already_exists`: The successor's id is taken by another key, returned as `key`.
 * - `refused`: The old key isn't active or already has a different successor.
 * - `limit_reached`: The organization already has the maximum number of active keys.
 */
export type ApiKeyRotation =
  | { readonly outcome: 'rotated' | 'already_exists'; readonly key: ApiKey; readonly previous: ApiKey }
  | { readonly outcome: 'refused' | 'limit_reached'; readonly key: null; readonly previous: ApiKey }

/** A request to insert a new key. */
export interface ApiKeyInsertion extends AuditedRequest {
  readonly key: ApiKeyRecord
  /** Maximum number of active keys in the organization, including the new one. */
  readonly limit: number
  /** `true` if the key was generated elsewhere, so another key might already have its digest. */
  readonly isImported?: true
}

/** A request to rename a key. */
export interface ApiKeyChange extends AuditedRequest {
  readonly keyId: string
  readonly name: string
  /** Only rename the key if the current name matches. If `undefined`, always rename the key. */
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
  /** How long the old key stays active, in ms (store's clock). If 0, it's revoked immediately. */
  readonly overlapMs: number
  /** Maximum number of active keys, including the successor. Rotating with no overlap doesn't add a key. */
  readonly limit: number
}

/** A request to set an organization's rate limit. */
export interface OrganizationLimit extends AuditedRequest {
  /** `null` to restore the API's default limit. */
  readonly rateLimit: RateLimit | null
}

// --- Store ---

/** The part of a store that manages API keys. Never cache keys, because changes must take effect immediately. */
export interface ApiKeyStore {
  /**
   * Looks up the organizations for a batch of key digests, most of which may be made up. We only use this to schedule
   * requests. `admit` still checks every digest.
   *
   * @param slots the slots found in the keys. Shards need the slots to know which organizations have moved
   * @returns organization ids by digest, for keys that are currently active
   */
  identify(digests: readonly string[], slots?: readonly number[]): Promise<ReadonlyMap<string, string>>

  /** Checks the API key, both rate limits and the scope, in this order and atomically. */
  admit(request: AdmissionRequest): Promise<Admission>

  /** Records that a key was just used. No-op if a use was recorded within the last minute. */
  markUsed(organizationId: string, keyId: string): Promise<void>

  /**
   * Inserts a key unless the id is taken or the limit is reached, even if calls are concurrent. A stored key with the
   * same id and digest counts as the same key. If any other key has this digest, in any organization and even if
   * inactive, the outcome is `already_exists` with no item. Lowering the limit doesn't revoke keys.
   */
  insert(request: ApiKeyInsertion): Promise<Insertion<ApiKey>>

  /** Returns a key, including revoked and expired keys, or `null` if there's no such key. */
  get(organizationId: string, keyId: string): Promise<ApiKey | null>

  /** Lists all the organization's keys, newest first. Includes revoked and expired keys. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Renames a key, even if revoked or expired. Repeating a call doesn't undo later changes.
   *
   * @returns the key in its current state, or `null` if there's no such key
   */
  update(request: ApiKeyChange): Promise<ApiKey | null>

  /** Revokes a key using the store's clock. No-op if already revoked. Returns `null` if there's no such key. */
  revoke(request: ApiKeyRevocation): Promise<ApiKey | null>

  /**
   * Replaces an active key that doesn't have a successor yet. If two calls race, only the first creates a
   * successor. The old key expires after `overlapMs` by the store's clock, unless it expires sooner anyway. With no
   * overlap, it's revoked.
   *
   * @returns `null` if there's no such key
   */
  rotate(request: ApiKeyReplacement): Promise<ApiKeyRotation | null>

  /** Sets the limit shared by all keys in the organization. `null` restores the API's default with a full bucket. */
  limitOrganization(request: OrganizationLimit): Promise<void>

  /** Returns the milliseconds until each API key's bucket is full, by key id. Omits keys with a full bucket. */
  readResets(organizationId: string): Promise<Readonly<Record<string, number>>>

  /** Returns the limit shared by all the organization's keys, or `null` if the API's default applies. */
  getOrganizationLimit(organizationId: string): Promise<RateLimit | null>
}
