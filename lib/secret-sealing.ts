import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import type { EndpointRef } from './deliveries.ts'
import { BusinessApiError, SECRET_UNAVAILABLE } from './errors.ts'

/** A new signing secret: `whsec_` and 32 random bytes in base64url. */
export function generateSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64url')}`
}

/** How signing secrets are kept at rest. */
export interface SecretSealingOptions {
  /**
   * Keys of 32 bytes: the first one seals, all of them open, so a new key is put in front and the old one stays until
   * nothing is sealed with it. Bytes, or text in base64, base64url or hex. Default none.
   */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /** Whether secrets may be stored open where there is no key. Default `false`: there, none can be stored. */
  allowPlaintextSecrets?: boolean | undefined
}

/** Seals the signing secrets of endpoints and opens them again. */
export interface SecretSealer {
  /**
   * The form in which a store keeps a secret. It opens for this endpoint only.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when there is no key and plain text is not allowed
   */
  seal(secret: string, ref: EndpointRef): string

  /**
   * The secret in a sealed form. One that was stored open needs neither key nor permission.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when its key is not in the ring, when it was changed, or
   *   when it was sealed for another endpoint
   */
  unseal(sealed: string, ref: EndpointRef): string
}

const PLAIN_PREFIX = 'plain.'
/** `v1.<key id>.<nonce>.<ciphertext>.<tag>`, each in base64url. */
const SEALED = /^v1\.([\w-]{8})\.([\w-]{16})\.([\w-]*)\.([\w-]{22})$/

/**
 * Seals with AES-256-GCM under a ring of keys.
 *
 * @throws `TypeError` for a key that is not one, whose value is not repeated
 */
export function createSecretSealer({
  secretKeys = [],
  allowPlaintextSecrets = false,
}: SecretSealingOptions = {}): SecretSealer {
  const ring = readRing(secretKeys)
  const [first] = ring

  return {
    seal(secret, ref) {
      if (first) return encrypt(secret, ref, ...first)
      if (allowPlaintextSecrets) return PLAIN_PREFIX + secret
      throw new BusinessApiError(
        SECRET_UNAVAILABLE,
        "Cannot store a signing secret as option 'secretKeys' is empty and 'allowPlaintextSecrets' is not set",
      )
    },

    unseal(sealed, ref) {
      if (sealed.startsWith(PLAIN_PREFIX)) return sealed.slice(PLAIN_PREFIX.length)
      const [, keyId = '', nonce = '', ciphertext = '', tag = ''] = SEALED.exec(sealed) ?? []
      if (!keyId) throw unavailable(ref, 'its sealed form is not one that this version knows')
      const key = ring.get(keyId)
      if (!key) throw unavailable(ref, `key ${keyId} is not among the 'secretKeys'`)
      const secret = decrypt({ nonce, ciphertext, tag }, ref, key)
      if (secret === null) {
        throw unavailable(
          ref,
          `key ${keyId} does not open it: it was changed, or sealed for another endpoint`,
        )
      }
      return secret
    },
  }
}

function unavailable({ endpointId }: EndpointRef, reason: string): BusinessApiError {
  return new BusinessApiError(
    SECRET_UNAVAILABLE,
    `Cannot open the signing secret of endpoint ${endpointId} as ${reason}`,
  )
}

// --- Keys ---

/** By key id, in the order given. */
function readRing(secretKeys: readonly (string | Uint8Array)[]): Map<string, KeyObject> {
  if (!Array.isArray(secretKeys)) {
    throw new TypeError("Cannot use option 'secretKeys' as it must be a list of keys")
  }
  return new Map(
    secretKeys.map((given: unknown, index) => {
      const bytes = typeof given === 'string' ? decodeKey(given) : given
      if (!(bytes instanceof Uint8Array) || bytes.byteLength !== 32) {
        throw new TypeError(
          `Cannot use option 'secretKeys[${index}]' as it must be 32 bytes, or those in base64, base64url or hex`,
        )
      }
      return [identify(bytes), createSecretKey(bytes)]
    }),
  )
}

function decodeKey(text: string): Uint8Array | null {
  const isHex = /^[0-9a-f]{64}$/i.test(text)
  const bytes = Buffer.from(text, isHex ? 'hex' : 'base64')
  // A decoder passes over what it does not know: a key with a typing error would be another key.
  const unpadded = text.replace(/=$/, '')
  const isExact = [bytes.toString('base64').replace(/=$/, ''), bytes.toString('base64url')].includes(unpadded)
  return isHex || isExact ? bytes : null
}

/** Tells keys apart and tells nothing about a random one. */
function identify(key: Uint8Array): string {
  return createHash('sha256').update(key).digest().subarray(0, 6).toString('base64url')
}

// --- AES-256-GCM ---

const CIPHER = 'aes-256-gcm'
/** Said on both sides: without it a tag cut to four bytes would be accepted. */
const TAG = { authTagLength: 16 }

interface Ciphertext {
  readonly nonce: string
  readonly ciphertext: string
  readonly tag: string
}

function encrypt(secret: string, ref: EndpointRef, keyId: string, key: KeyObject): string {
  const nonce = randomBytes(12)
  const cipher = createCipheriv(CIPHER, key, nonce, TAG).setAAD(bind(ref))
  const ciphertext = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return ['v1', keyId, ...[nonce, ciphertext, cipher.getAuthTag()].map(encode)].join('.')
}

/** `null` for what the key did not make for this endpoint. */
function decrypt(sealed: Ciphertext, ref: EndpointRef, key: KeyObject): string | null {
  try {
    const decipher = createDecipheriv(CIPHER, key, decode(sealed.nonce), TAG)
    decipher.setAAD(bind(ref)).setAuthTag(decode(sealed.tag))
    return Buffer.concat([decipher.update(decode(sealed.ciphertext)), decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

/** What is authenticated but not stored: a sealed secret in the row of another endpoint does not open. */
function bind({ organizationId, endpointId }: EndpointRef): Buffer {
  return Buffer.from(JSON.stringify([organizationId, endpointId]))
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64url')
}

function decode(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (encode(bytes) !== text) throw new Error('Not the text of any bytes')
  return bytes
}
