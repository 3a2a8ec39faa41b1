import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import { type RateLimitState, type RateLimits, takeToken } from '../access/rate-limit.ts'
import { jsonText } from '../base/json-text.ts'
import type { KeptApiKey, Memory, Organization } from './state.ts'

/** Precision of a key's last use, in milliseconds. */
const LAST_USE_MS = 60_000

/** Judges a request and takes a token from both buckets. */
export function admit(memory: Memory, { keyDigest, scope, rateLimits }: AdmissionRequest): Admission {
  const now = memory.clock()
  const found = memory.digests.get(keyDigest)
  if (!found || !isInForce(found.key, now)) return { outcome: 'unauthenticated' }

  const { organization, key } = found
  const rateLimit = rateLimits && takeTokens(organization, key, rateLimits, now)
  const refused = rateLimit !== null && rateLimit.retryAfterMs > 0
  return {
    outcome: refused ? 'limited' : key.record.scopes.includes(scope) ? 'admitted' : 'forbidden',
    caller: { organizationId: organization.id, keyId: key.record.id },
    rateLimit,
    lastUseIsStale: isLastUseStale(key, now),
  }
}

/**
 * Judges a request and, if the request is admitted, reads the page of the caller's organization.
 *
 * @param representations of the records of the page, by id
 */
export function admitToPage<Representation>(
  memory: Memory,
  request: AdmissionRequest,
  { limit, before }: PageRequest,
  representations: (organization: Organization) => ReadonlyMap<string, Representation>,
): AdmittedPage<Representation> {
  const admission = admit(memory, request)
  if (admission.outcome !== 'admitted') return { admission, page: null }
  const organization = memory.organization(admission.caller.organizationId)
  // Ids are ULIDs: the reverse of the id order is newest first.
  const newest = [...representations(organization)]
    .filter(([id]) => before === undefined || id < before)
    .sort(([one], [other]) => (one < other ? 1 : -1))
  const page = newest.slice(0, limit)
  return {
    admission,
    page: jsonText(page.map(([, representation]) => representation)),
    next: newest.length > limit ? page.at(-1)?.[0] : null,
  }
}

/** True if the last use of a key was recorded more than a minute ago, or never. */
export function isLastUseStale({ lastUsedAt }: KeptApiKey, now: number): boolean {
  return lastUsedAt === null || now - Date.parse(lastUsedAt) > LAST_USE_MS
}

/** True for a key that is neither revoked nor expired. */
export function isInForce({ record, revokedAt }: KeptApiKey, now: number): boolean {
  return revokedAt === null && (record.expiresAt === null || Date.parse(record.expiresAt) > now)
}

function takeTokens(
  organization: Organization,
  key: KeptApiKey,
  limits: RateLimits,
  now: number,
): RateLimitState {
  const { times, state } = takeToken(
    { key: key.bucketFullAt, organization: organization.bucketFullAt },
    { key: key.record.rateLimit ?? limits.key, organization: organization.rateLimit ?? limits.organization },
    now,
  )
  key.bucketFullAt = times.key
  organization.bucketFullAt = times.organization
  return state
}
