import type { Admission, AdmissionRequest, AdmittedPage, PageRequest, Since } from '../access/admission.ts'
import { endOfKey } from '../access/api-keys.ts'
import { type RateLimitState, type RateLimits, takeToken } from '../access/rate-limit.ts'
import { jsonText } from '../base/json-text.ts'
import type { Memory, Organization, StoredApiKey } from './state.ts'
import type { SyncedRecords } from './synced-records.ts'

/** How precisely we record a key's last use, in ms. */
const LAST_USE_MS = 60_000

/** Decides whether to admit a request, and takes a token from both buckets. */
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
 * Decides whether to admit a request and, if so, reads a page of the caller's records.
 *
 * @param recordsOf returns the records to list
 * @param represent returns a record in the API's format
 */
export function admitToPage<T, Representation>(
  memory: Memory,
  request: AdmissionRequest,
  { limit, before, since }: PageRequest,
  recordsOf: (organization: Organization) => SyncedRecords<T>,
  represent: (record: T, organization: Organization) => Representation,
): AdmittedPage<Representation> {
  const admission = admit(memory, request)
  if (admission.outcome !== 'admitted') return { admission, page: null }
  const organization = memory.organization(admission.caller.organizationId)
  const records = recordsOf(organization)
  const { ids, next, position } = since
    ? changedIds(memory, records, limit, since)
    : newestIds(records, limit, before)
  const page = ids.flatMap((id) => {
    const record = records.get(id)
    return record === undefined ? [] : [represent(record, organization)]
  })
  return { admission, page: jsonText(page), next, position }
}

interface Ids {
  readonly ids: readonly string[]
  readonly next: string | null
  readonly position?: string
}

function newestIds(records: SyncedRecords<unknown>, limit: number, before: string | undefined): Ids {
  // Ids are ULIDs, so descending order is newest first.
  const newest = [...records.keys()]
    .filter((id) => before === undefined || id < before)
    .sort((one, other) => (one < other ? 1 : -1))
  const ids = newest.slice(0, limit)
  return { ids, next: newest.length > limit ? (ids.at(-1) ?? null) : null }
}

/** Returns changed records. Methods run one at a time, so a position is just a change number. */
function changedIds(
  { changes: { storeId, last } }: Memory,
  { changes }: SyncedRecords<unknown>,
  limit: number,
  since: Since,
): Ids {
  const [owner, number] = 'position' in since ? since.position.split(' ') : []
  const after = owner === storeId ? Number(number) : 0
  const from = 'time' in since ? Date.parse(since.time) : Number.NEGATIVE_INFINITY
  const changed = [...changes]
    .filter(([, change]) => change.number > after && change.at >= from)
    .sort(([, one], [, other]) => one.number - other.number)
  const page = changed.slice(0, limit)
  const hasMore = changed.length > limit
  const position = `${storeId} ${hasMore ? page.at(-1)?.[1].number : last}`
  return { ids: page.map(([id]) => id), next: hasMore ? position : null, position }
}

/** Returns `true` if a key's last use hasn't been recorded in over a minute. */
export function isLastUseStale({ lastUsedAt }: StoredApiKey, now: number): boolean {
  return lastUsedAt === null || now - Date.parse(lastUsedAt) > LAST_USE_MS
}

/** Returns `true` if a key is neither revoked nor expired. */
export function isInForce({ record, revokedAt }: StoredApiKey, now: number): boolean {
  return endOfKey({ revokedAt, expiresAt: record.expiresAt }, now) === null
}

function takeTokens(
  organization: Organization,
  key: StoredApiKey,
  limits: RateLimits,
  now: number,
): RateLimitState {
  const { times, state } = takeToken(
    { key: key.bucketFullAt, organization: organization.bucketFullAt },
    { key: key.record.rateLimit ?? limits.key, organization: organization.rateLimit ?? limits.organization },
    now,
    { key: key.record.rateLimit !== null, organization: organization.rateLimit !== null },
  )
  key.bucketFullAt = times.key
  organization.bucketFullAt = times.organization
  return state
}
