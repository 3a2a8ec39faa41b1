import { randomBytes } from 'node:crypto'
import { BusinessApiError, SECRET_UNAVAILABLE } from '../base/errors.ts'
import { type Names, readFlag } from '../base/options.ts'
import type { EndpointRef } from './claims.ts'
import { createKeyRing, type Opening } from './key-ring.ts'

/**
 * Makes a signing secret: `whsec_` and 32 random bytes in standard base64. The service's signature uses the whole string as the key;
 * Standard Webhooks decodes what follows `whsec_`.
 */
export function generateSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** The options for the credentials of endpoints at rest: signing secrets and the endpoints' own headers. */
export interface SecretSealingOptions {
  /**
   * Keys of 32 random bytes. The first key seals and all keys open, so put a new key in front and keep the old key
   * until `secrets.reseal` has sealed every credential anew. Bytes, or a string in base64, base64url or hex. Default: no keys.
   */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /**
   * Allows secrets to be stored open without keys, and open secrets to be used beside keys until they are sealed.
   * Default `false`: without keys no secret can be stored, and beside keys an open secret is rejected, because any
   * program that can write the row could have written the secret.
   */
  allowPlaintextSecrets?: boolean | undefined
}

/** The names of {@link SecretSealingOptions}. */
export const SEALING_NAMES: Names<SecretSealingOptions> = { secretKeys: true, allowPlaintextSecrets: true }

/** An endpoint's own headers in the form that a store keeps. */
export interface SealedHeaders {
  /** The header names, in the order in which they are sealed. */
  readonly headerNames: readonly string[]
  /** Null: no headers. */
  readonly sealedHeaders: string | null
}

/**
 * Seals and opens the credentials of endpoints. A sealed form opens only for the same endpoint, and sealed headers only beside
 * the same names of headers.
 */
export interface SecretSealer {
  /** True if the sealer has a key. */
  readonly hasKeys: boolean

  /** Returns true if a form is sealed under the first key, which seals every new form. */
  isCurrent(sealed: string): boolean

  /**
   * Seals a signing secret.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when there is no key and plain text is not allowed
   */
  seal(secret: string, ref: EndpointRef): string

  /**
   * Opens a signing secret.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the key of the form is not in the ring, when the
   *   form was changed or sealed for another endpoint, and when the secret is stored open although there are keys and
   *   plain text is not allowed
   */
  unseal(sealed: string, ref: EndpointRef): string

  /** Seals headers. @throws as {@link SecretSealer.seal} */
  sealHeaders(headers: Readonly<Record<string, string>>, ref: EndpointRef): SealedHeaders

  /** Opens headers. @throws as {@link SecretSealer.unseal} */
  unsealHeaders(sealed: SealedHeaders, ref: EndpointRef): Readonly<Record<string, string>>
}

/** Opens the credentials of endpoints. */
export type SecretOpener = Pick<SecretSealer, 'unseal' | 'unsealHeaders'>

const PLAIN_PREFIX = 'plain.'

const STORED_OPEN =
  "its stored form is not sealed although option 'secretKeys' is set: seal it by secrets.reseal(), and set " +
  "'allowPlaintextSecrets' until then"

/** A kind of credentials, with the endpoint that they are sealed for. */
interface Credential extends EndpointRef {
  /** Name in messages. */
  readonly name: 'signing secret' | 'headers'
  /** Values that are authenticated and are not part of the sealed form. */
  readonly binding: readonly string[]
}

/**
 * Makes a sealer with a ring of keys.
 *
 * @param onUnsealed is called once for each endpoint with a credential that is stored open beside keys and was opened
 * @throws `TypeError` for a key that cannot be used; the message does not repeat the key
 */
export function createSecretSealer(
  options: SecretSealingOptions = {},
  onUnsealed: (ref: EndpointRef) => void = () => {},
): SecretSealer {
  const ring = createKeyRing(options.secretKeys ?? [])
  const allowPlaintextSecrets = readFlag('allowPlaintextSecrets', options.allowPlaintextSecrets)
  const reported = new Set<string>()

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
    const opening = sealed.startsWith(PLAIN_PREFIX)
      ? readPlain(sealed.slice(PLAIN_PREFIX.length), credential)
      : ring.open(sealed, credential.binding)
    if ('text' in opening) return opening.text
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
