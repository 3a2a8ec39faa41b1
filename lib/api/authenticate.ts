import { digestApiKey, isWellFormedApiKey } from '../access/api-keys.ts'
import { type Refusal, refusals } from '../http/refusal.ts'

/** RFC 9110: the scheme ignores case, one or more spaces follow it. */
const BEARER = /^bearer +([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Longer than any key; what is longer still is not worth a regular expression. */
const HEADER_MAX = 256

/**
 * The digest of the API key that a request presents (specification, section 5). A key of the wrong shape or checksum is
 * refused here, without asking the store; the text is the same for every cause.
 *
 * @throws `Refusal` 401
 */
export function readKeyDigest(authorization: string | undefined): string {
  // RFC 6750, section 3.1: no error code for a request that presents no bearer key at all.
  if (authorization === undefined || !SCHEME.test(authorization)) throw refusals.unauthenticated(false)
  const key = authorization.length <= HEADER_MAX ? BEARER.exec(authorization)?.[1] : undefined
  if (key === undefined || !isWellFormedApiKey(key)) throw invalidKey()
  return digestApiKey(key)
}

/** The answer to a key that is not in force. */
export function invalidKey(): Refusal {
  return refusals.unauthenticated(true)
}
