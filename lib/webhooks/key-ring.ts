import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto'

/** Encrypts strings with AES-256-GCM. Always seals with the first key, and opens with whichever key was used. */
export interface KeyRing {
  readonly isEmpty: boolean
  /**
   * Seals a string with the first key.
   *
   * @param binding authenticated but not stored. You need the same binding to open the string
   * @throws `Error` if there are no keys
   */
  seal(text: string, binding: readonly string[]): string
  open(sealed: string, binding: readonly string[]): Opening
  /** Returns `true` if the string was sealed with the first key. */
  isCurrent(sealed: string): boolean
}

/** The decrypted string, or the reason it couldn't be decrypted, for use after "because". */
export type Opening = { readonly text: string } | { readonly obstacle: string }

/** `v1.<key id>.<nonce>.<ciphertext>.<tag>`, each in base64url. */
const SEALED = /^v1\.([\w-]{8})\.([\w-]{16})\.([\w-]*)\.([\w-]{22})$/

/**
 * Creates a key ring from the `secretKeys` option.
 *
 * @throws `TypeError` if a key is invalid. The message doesn't include the key
 */
export function createKeyRing(secretKeys: readonly (string | Uint8Array)[] = []): KeyRing {
  const ring = readKeys(secretKeys)
  const [first] = ring

  return {
    isEmpty: first === undefined,

    seal(text, binding) {
      if (first === undefined) throw new Error('Cannot seal a secret because the key ring is empty')
      const [keyId, key] = first
      return ['v1', keyId, ...encrypt(text, binding, key).map(encode)].join('.')
    },

    open(sealed, binding) {
      const [, keyId = '', nonce = '', ciphertext = '', tag = ''] = SEALED.exec(sealed) ?? []
      if (!keyId) return { obstacle: 'its sealed form is unknown to this version' }
      const key = ring.get(keyId)
      if (!key) return { obstacle: `key ${keyId} is not among the 'secretKeys'` }
      const text = decrypt({ nonce, ciphertext, tag }, binding, key)
      if (text !== null) return { text }
      return { obstacle: `key ${keyId} does not open it: it was changed, or sealed for another endpoint` }
    },

    isCurrent: (sealed) => first !== undefined && sealed.startsWith(`v1.${first[0]}.`),
  }
}

// --- Keys ---

/** Returns the keys by id, in their original order. */
function readKeys(secretKeys: readonly (string | Uint8Array)[]): Map<string, KeyObject> {
  if (!Array.isArray(secretKeys)) {
    throw new TypeError("Option 'secretKeys' must be a list of keys")
  }
  return new Map(
    secretKeys.map((given: unknown, index) => {
      const bytes = typeof given === 'string' ? decodeKey(given) : given
      if (!(bytes instanceof Uint8Array) || bytes.byteLength !== 32) {
        throw new TypeError(
          `Option 'secretKeys[${index}]' must be 32 bytes, or a string with 32 bytes in base64, base64url or hex${given === undefined ? ': current value is undefined, is the environment variable set?' : ''}`,
        )
      }
      if (bytes.every((byte) => byte === bytes[0])) {
        throw new TypeError(
          `Cannot use option 'secretKeys[${index}]' because its 32 bytes are all the same: make a random key: ` +
            'openssl rand -base64 32',
        )
      }
      return [identify(bytes), createSecretKey(bytes)]
    }),
  )
}

function decodeKey(text: string): Uint8Array | null {
  const isHex = /^[0-9a-f]{64}$/i.test(text)
  const bytes = Buffer.from(text, isHex ? 'hex' : 'base64')
  // `Buffer.from` ignores invalid characters, so a typo would silently result in a different key.
  const unpadded = text.replace(/=$/, '')
  const isExact = [bytes.toString('base64').replace(/=$/, ''), bytes.toString('base64url')].includes(unpadded)
  return isHex || isExact ? bytes : null
}

/** Returns a key's id. Since keys are random, the id doesn't reveal anything about the key's bytes. */
function identify(key: Uint8Array): string {
  return createHash('sha256').update(key).digest().subarray(0, 6).toString('base64url')
}

// --- AES-256-GCM ---

const CIPHER = 'aes-256-gcm'
/** Required for both encryption and decryption, as GCM would otherwise accept a tag truncated to four bytes. */
const TAG = { authTagLength: 16 }

interface Ciphertext {
  readonly nonce: string
  readonly ciphertext: string
  readonly tag: string
}

/** @returns nonce, ciphertext and tag */
function encrypt(text: string, binding: readonly string[], key: KeyObject): readonly Buffer[] {
  const nonce = randomBytes(12)
  const cipher = createCipheriv(CIPHER, key, nonce, TAG).setAAD(toBytes(binding))
  const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return [nonce, ciphertext, cipher.getAuthTag()]
}

/** Returns `null` unless the string was encrypted with this key and binding. */
function decrypt(sealed: Ciphertext, binding: readonly string[], key: KeyObject): string | null {
  try {
    const decipher = createDecipheriv(CIPHER, key, decode(sealed.nonce), TAG)
    decipher.setAAD(toBytes(binding)).setAuthTag(decode(sealed.tag))
    return Buffer.concat([decipher.update(decode(sealed.ciphertext)), decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

/** JSON makes sure that two different bindings never have the same bytes. */
function toBytes(binding: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(binding))
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64url')
}

function decode(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (encode(bytes) !== text) throw new Error('Not the text of any bytes')
  return bytes
}
