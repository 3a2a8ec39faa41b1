import { randomBytes } from 'node:crypto'
import { BusinessApiError, SECRET_UNAVAILABLE } from '../base/errors.ts'
import { type Names, readFlag } from '../base/options.ts'
import type { EndpointRef } from './claims.ts'
import { createKeyRing, type Opening } from './key-ring.ts'

/**
 * Generates a signing secret, which is `whsec_` followed by 32 random bytes in standard base64. Our own signatures use
 * the entire string as the key. Standard Webhooks decodes the part after `whsec_`.
 */
export function generateSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** Options for storing endpoint credentials (signing secrets and custom headers). */
export interface SecretSealingOptions {
  /**
   * Encryption keys of 32 random bytes each, either as bytes or as a base64, base64url or hex string. New credentials
   * are sealed with the first key, and existing ones can be opened with any key. To rotate, add the new key at the
   * front, and keep the old one until `secrets.reseal` has resealed everything. Defaults to `[]`.
   */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /**
   * If `true` and there are no keys, secrets are stored as plain text. If there are keys, plain text secrets can still
   * be used until they're sealed. Defaults to `false`, so storing a secret requires a key, and plain text secrets are
   * rejected if there are keys, since anything with write access to the row could have put them there.
   */
  allowPlaintextSecrets?: boolean | undefined
}

/** The names of {@link SecretSealingOptions}. */
export const SEALING_NAMES: Names<SecretSealingOptions> = { secretKeys: true, allowPlaintextSecrets: true }

/** An endpoint's custom headers as stored. */
export interface SealedHeaders {
  /** The header names, in sealing order. */
  readonly headerNames: readonly string[]
  /** `null` if there are no headers. */
  readonly sealedHeaders: string | null
}

/**
 * Seals and opens endpoint credentials. A sealed credential can only be opened for the same endpoint, and sealed
 * headers only with the same header names.
 */
export interface SecretSealer {
  /** `true` if there is at least one key. */
  readonly hasKeys: boolean

  /** Returns `true` if the credential is sealed with the first key. */
  isCurrent(sealed: string): boolean

  /**
   * Seals a signing secret.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if there are no keys and plain text isn't allowed
   */
  seal(secret: string, ref: EndpointRef): string

  /**
   * Opens a signing secret.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if the key is missing, if the secret was modified or
   * sealed for another endpoint, or if plain text isn't allowed and there are keys
   */
  unseal(sealed: string, ref: EndpointRef): string

  /** Seals headers. @throws the same errors as {@link SecretSealer.seal} */
  sealHeaders(headers: Readonly<Record<string, string>>, ref: EndpointRef): SealedHeaders

  /** Opens headers. @throws the same errors as {@link SecretSealer.unseal} */
  unsealHeaders(sealed: SealedHeaders, ref: EndpointRef): Readonly<Record<string, string>>
}

/** The part of {@link SecretSealer} that opens credentials. */
export type SecretOpener = Pick<SecretSealer, 'unseal' | 'unsealHeaders'>

const PLAIN_PREFIX = 'plain.'

/**
 * Maximum number and length of sealed credentials whose plain text is kept in memory (up to some 10 MB). Decrypting
 * takes longer than the rest of building a request, and the memory of the process has the keys in any case.
 */
const OPENED_MAX = 5000
const OPENED_LENGTH_MAX = 1024

const STORED_OPEN =
  "its stored form is not sealed although option 'secretKeys' is set: seal it by secrets.reseal(), and set " +
  "'allowPlaintextSecrets' until then"

interface Credential extends EndpointRef {
  /** The credential's name in messages. */
  readonly name: 'signing secret' | 'headers'
  /** Authenticated along with the credential, but not stored in the sealed form. */
  readonly binding: readonly string[]
}

/**
 * Creates a sealer.
 *
 * @param onUnsealed called once per endpoint when a plain text credential is used even though there are keys
 * @throws `TypeError` if a key is invalid. The message doesn't include the key
 */
export function createSecretSealer(
  options: SecretSealingOptions = {},
  onUnsealed: (ref: EndpointRef) => void = () => {},
): SecretSealer {
  const ring = createKeyRing(options.secretKeys)
  const allowPlaintextSecrets = readFlag('allowPlaintextSecrets', options.allowPlaintextSecrets)
  const reported = new Set<string>()
  const opened = new Map<string, string>()

  function seal(text: string, { name, binding }: Credential): string {
    if (!ring.isEmpty) return ring.seal(text, binding)
    if (allowPlaintextSecrets) return PLAIN_PREFIX + text
    throw new BusinessApiError(
      SECRET_UNAVAILABLE,
      `Cannot store the ${name} because option 'secretKeys' is empty and 'allowPlaintextSecrets' is not set: ` +
        'pass a key, for example from openssl rand -base64 32',
    )
  }

  function open(sealed: string, credential: Credential): string {
    const key = JSON.stringify([sealed, credential.binding])
    const known = opened.get(key)
    if (known !== undefined) return known
    const opening = sealed.startsWith(PLAIN_PREFIX)
      ? readPlain(sealed.slice(PLAIN_PREFIX.length), credential)
      : ring.open(sealed, credential.binding)
    if ('text' in opening) {
      if (opened.size >= OPENED_MAX) opened.clear()
      if (sealed.length <= OPENED_LENGTH_MAX) opened.set(key, opening.text)
      return opening.text
    }
    const { name, endpointId } = credential
    throw new BusinessApiError(
      SECRET_UNAVAILABLE,
      `Cannot open the ${name} of endpoint ${endpointId} because ${opening.obstacle}`,
    )
  }

  function readPlain(text: string, { organizationId, endpointId }: Credential): Opening {
    if (ring.isEmpty) return { text }
    if (!allowPlaintextSecrets) return { obstacle: STORED_OPEN }
    const id = `${organizationId} ${endpointId}`
    if (!reported.has(id)) onUnsealed({ organizationId, endpointId })
    reported.add(id)
    return { text }
  }

  return {
    hasKeys: !ring.isEmpty,
    isCurrent: ring.isCurrent,
    seal: (secret, ref) => seal(secret, secretOf(ref)),
    unseal: (sealed, ref) => open(sealed, secretOf(ref)),

    sealHeaders(headers, ref) {
      const headerNames = Object.keys(headers)
      if (headerNames.length === 0) return { headerNames, sealedHeaders: null }
      return { headerNames, sealedHeaders: seal(JSON.stringify(headers), headersOf(ref, headerNames)) }
    },

    unsealHeaders({ headerNames, sealedHeaders }, ref) {
      if (sealedHeaders === null) return {}
      return JSON.parse(open(sealedHeaders, headersOf(ref, headerNames))) as Record<string, string>
    },
  }
}

function secretOf({ organizationId, endpointId }: EndpointRef): Credential {
  return { organizationId, endpointId, name: 'signing secret', binding: [organizationId, endpointId] }
}

function headersOf({ organizationId, endpointId }: EndpointRef, headerNames: readonly string[]): Credential {
  const binding = [organizationId, endpointId, 'headers', ...headerNames]
  return { organizationId, endpointId, name: 'headers', binding }
}
