import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Admission, AdmissionRequest } from './admission.ts'
import type { AuditRecord } from './audit.ts'
import type { RateLimit } from './rate-limit.ts'
import type { Scope } from './scopes.ts'

// --- Form ---

/** How many base62 digits 32 random bytes and a CRC32 need. */
const SECRET_DIGITS = 43
const CHECKSUM_DIGITS = 6

/**
 * The shape of every API key, for secret scanners: `<prefix>_live_`, 43 base62 digits of 32 random bytes, 6 base62
 * digits of the CRC32 over all that precedes them.
 */
export const API_KEY_PATTERN: RegExp = /\b[a-z][a-z0-9]{0,15}_live_[0-9A-Za-z]{49}\b/

const WHOLE_KEY = new RegExp(`^${API_KEY_PATTERN.source}$`)

/** What keys begin with unless the host says otherwise. Not `sk`, which scanners take for another company's. */
export const DEFAULT_KEY_PREFIX = 'bapi'

/** What a key may begin with: a lower-case letter, then at most 15 letters or digits. */
export const API_KEY_PREFIX: RegExp = /^[a-z][a-z0-9]{0,15}$/

/** Whether a prefix can start an API key: a lower-case letter, then at most 15 letters or digits. */
export function isApiKeyPrefix(prefix: string): boolean {
  return API_KEY_PREFIX.test(prefix)
}

/** Makes a new key. It exists in full only in the value returned. */
export function generateApiKey(prefix: string): string {
  const unchecked = `${prefix}_live_${toBase62(BigInt(`0x${randomBytes(32).toString('hex')}`), SECRET_DIGITS)}`
  return unchecked + checksum(unchecked)
}

/** Whether a text has the shape and the checksum of a key, so that a typing error costs no round trip. */
export function isWellFormedApiKey(text: string): boolean {
  return WHOLE_KEY.test(text) && checksum(text.slice(0, -CHECKSUM_DIGITS)) === text.slice(-CHECKSUM_DIGITS)
}

/** The only form in which a key is stored or compared: SHA-256, lower-case hex. */
export function digestApiKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

function checksum(text: string): string {
  return toBase62(BigInt(crc32(text)), CHECKSUM_DIGITS)
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function toBase62(value: bigint, digits: number): string {
  let text = ''
  for (let rest = value; text.length < digits; rest /= 62n) {
    text = BASE62.charAt(Number(rest % 62n)) + text
  }
  return text
}

// --- Types ---

/** An API key as an administrator sees it: everything but the key. */
export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** What precedes the secret digits: `bapi_live_`. */
  readonly prefix: string
  /** The last four characters, to tell keys apart. */
  readonly lastFour: string
  /** Instead of the API's limit for keys; null for that one. */
  readonly rateLimit: RateLimit | null
  readonly createdAt: string
  /** Null: never. */
  readonly expiresAt: string | null
  /** Null: in force. */
  readonly revokedAt: string | null
  /** The key that replaces it; null: it has not been rotated. */
  readonly successorId: string | null
  /** Exact to a minute; null: never used. */
  readonly lastUsedAt: string | null
}

/** A new key as a store keeps it. */
export interface ApiKeyRecord extends Omit<ApiKey, 'revokedAt' | 'successorId' | 'lastUsedAt'> {
  readonly digest: string
}

/** A key that is to replace another one, whose name, scopes and rate limit it has. */
export interface ApiKeySuccessor
  extends Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'> {
  /** Absent: that of the key before. */
  readonly expiresAt?: string | null
}

/** What became of a rotation. */
export interface ApiKeyRotation {
  /** The new key; null when none was made, as the one before is not in force or has a successor already. */
  readonly key: ApiKey | null
  /** The one before, as it is now. */
  readonly previous: ApiKey
}

// --- Store ---

/** What a store must do for API keys. Nothing may cache a key's state: the next request on any process must see it. */
export interface ApiKeyStore {
  /** Judges a request by its key, the two rate limits and the scope, in that order, as one atomic step. */
  admit(request: AdmissionRequest): Promise<Admission>

  /** Records that a key was used now; does nothing when that was recorded within the last minute. */
  markUsed(organizationId: string, keyId: string): Promise<void>

  /** Stores a new key. The same id again changes nothing. */
  insert(organizationId: string, key: ApiKeyRecord, entry: AuditRecord): Promise<void>

  /** All keys of the organization, revoked and expired ones too, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /** Revokes a key from now on, by the store's clock; an earlier revocation stands. `null` if there is no such key. */
  revoke(organizationId: string, keyId: string, entry: AuditRecord): Promise<ApiKey | null>

  /**
   * Makes the successor of a key that is in force and has none; of two at once one is made. The one before ends after
   * `overlapMs` by the store's clock, unless it expires earlier; for 0 it is revoked. The same successor again changes
   * nothing and gives the same.
   *
   * @returns `null` if there is no such key
   */
  rotate(
    organizationId: string,
    keyId: string,
    successor: ApiKeySuccessor,
    overlapMs: number,
    entry: AuditRecord,
  ): Promise<ApiKeyRotation | null>

  /** Sets the organization's own limit for all its keys together; `null` returns it to the API's. */
  limitOrganization(organizationId: string, rateLimit: RateLimit | null, entry: AuditRecord): Promise<void>
}
