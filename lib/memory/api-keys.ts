import { isDeepStrictEqual } from 'node:util'
import type { ApiKey, ApiKeyRecord, ApiKeyStore } from '../api-keys.ts'
import { toTimestamp } from '../making.ts'
import { admit, isInForce, isLastUseStale } from './admission.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { KeptApiKey, Memory, Organization } from './memory.ts'

/** API keys, and the admission of requests by them, in memory. */
export function createApiKeyStore(memory: Memory): ApiKeyStore {
  return {
    async admit(request) {
      return admit(memory, request)
    },

    async markUsed(organizationId, keyId) {
      const now = memory.clock()
      const key = memory.organization(organizationId).apiKeys.get(keyId)
      if (key && isLastUseStale(key, now)) key.lastUsedAt = toTimestamp(now)
    },

    async insert(organizationId, record, entry) {
      const organization = memory.organization(organizationId)
      if (organization.apiKeys.has(record.id)) return
      insert(memory, organization, structuredClone(record))
      recordEntry(memory, organization, entry)
    },

    async list(organizationId) {
      const newestFirst = [...memory.organization(organizationId).apiKeys]
        .sort(([one], [other]) => (one < other ? 1 : -1))
        .map(([, key]) => key)
      return newestFirst.map(show)
    },

    async revoke(organizationId, keyId, entry) {
      const organization = memory.organization(organizationId)
      const key = organization.apiKeys.get(keyId)
      if (!key) return null
      if (key.revokedAt === null) {
        key.revokedAt = toTimestamp(memory.clock())
        recordEntry(memory, organization, entry)
      }
      return show(key)
    },

    async rotate(organizationId, keyId, successor, overlapMs, entry) {
      const organization = memory.organization(organizationId)
      const key = organization.apiKeys.get(keyId)
      if (!key) return null
      const now = memory.clock()
      if (key.successorId === null && isInForce(key, now)) {
        const { name, scopes, rateLimit, expiresAt } = key.record
        insert(memory, organization, structuredClone({ name, scopes, rateLimit, expiresAt, ...successor }))
        key.successorId = successor.id
        end(key, now, overlapMs)
        recordEntry(memory, organization, entry)
      }
      const made = key.successorId === successor.id ? organization.apiKeys.get(successor.id) : undefined
      return { key: made ? show(made) : null, previous: show(key) }
    },

    async limitOrganization(organizationId, rateLimit, entry) {
      const organization = memory.organization(organizationId)
      if (isDeepStrictEqual(organization.rateLimit, rateLimit) || isRecorded(organization, entry)) return
      organization.rateLimit = structuredClone(rateLimit)
      recordEntry(memory, organization, entry)
    },
  }
}

function insert(memory: Memory, organization: Organization, record: ApiKeyRecord): void {
  // Two keys never share a digest; a second owner would take the key away from the first.
  if (memory.digests.has(record.digest)) throw new Error('Cannot insert an API key as its digest is taken')
  const key: KeptApiKey = { record, revokedAt: null, successorId: null, lastUsedAt: null, bucketFullAt: 0 }
  organization.apiKeys.set(record.id, key)
  memory.digests.set(record.digest, { organization, key })
}

/** Lets a key be in force for the overlap only, or not even that. */
function end(key: KeptApiKey, now: number, overlapMs: number): void {
  if (overlapMs === 0) key.revokedAt = toTimestamp(now)
  else key.record = { ...key.record, expiresAt: earlier(key.record.expiresAt, toTimestamp(now + overlapMs)) }
}

/** Timestamps of one form sort as their times do. */
function earlier(one: string | null, other: string): string {
  return one !== null && one < other ? one : other
}

function show({ record, revokedAt, successorId, lastUsedAt }: KeptApiKey): ApiKey {
  const { digest: _, ...shown } = structuredClone(record)
  return { ...shown, revokedAt, successorId, lastUsedAt }
}
