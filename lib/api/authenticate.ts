import { type ApiKeyStore, digestApiKey, isWellFormedApiKey } from '../access/api-keys.ts'
import { type Refusal, refusals } from '../http/refusal.ts'
import { createKeyLookups } from './key-lookups.ts'

/** RFC 9110: the scheme ignores case; a space or several follow. */
const BEARER = /^bearer +([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Longer than any key: a longer text is refused without a regular expression. */
const HEADER_MAX = 256

/** The key of a request, in force at the last look-up. */
export interface PresentedKey {
  readonly keyDigest: string
  readonly organizationHint: string
}

/** Separates requests with a valid key from all other requests, before the store judges the former. */
export interface Authentication {
  /**
   * Finds the key that a request presents.
   *
   * @param authorization the header of the request
   * @param peer names the group of callers that share their turns
   * @throws `Refusal` 401; `BusinessApiError` with code `store_unavailable` when the store cannot be reached
   */
  present(authorization: string | undefined, peer: () => string): Promise<PresentedKey>
  /**
   * Forgets a key that the store has refused.
   *
   * @returns the refusal
   */
  refuse(keyDigest: string): Refusal
}

/** Authenticates by the keys of a store. */
export function createAuthentication(apiKeys: ApiKeyStore): Authentication {
  const lookups = createKeyLookups(apiKeys)
  return {
    async present(authorization, peer) {
      const keyDigest = readKeyDigest(authorization)
      const organizationHint = lookups.remembered(keyDigest) ?? (await lookups.find(keyDigest, peer()))
      if (organizationHint === null) throw invalidKey()
      return { keyDigest, organizationHint }
    },
    refuse(keyDigest) {
      lookups.forget(keyDigest)
      return invalidKey()
    },
  }
}

/**
 * The digest of the API key that a request presents (specification, section 5). A key of the wrong shape or checksum is
 * refused here, without asking the store; the text is the same for every cause.
 *
 * @throws `Refusal` 401
 */
function readKeyDigest(authorization: string | undefined): string {
  // RFC 6750, section 3.1: no error code for a request that presents no bearer key at all.
  if (authorization === undefined || !SCHEME.test(authorization)) throw refusals.unauthenticated(false)
  const key = authorization.length <= HEADER_MAX ? BEARER.exec(authorization)?.[1] : undefined
  if (key === undefined || !isWellFormedApiKey(key)) throw invalidKey()
  return digestApiKey(key)
}

/** The answer to a key that is not in force. */
function invalidKey(): Refusal {
  return refusals.unauthenticated(true)
}
