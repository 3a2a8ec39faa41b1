import type { ApiKey, ApiKeyRecord, ApiKeyStore } from '../api-keys.ts'
import { toTimestamp } from '../making.ts'
import { admit, isLastUseStale } from './admission.ts'
import type { KeptApiKey, Memory } from './memory.ts'

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

    async insert(organizationId, record) {
      insert(memory, organizationId, structuredClone(record))
    },

    async list(organizationId) {
      const newestFirst = [...memory.organization(organizationId).apiKeys]
        .sort(([one], [other]) => (one < other ? 1 : -1))
        .map(([, key]) => key)
      return newestFirst.map(show)
    },

    async revoke(organizationId, keyId) {
      const key = memory.organization(organizationId).apiKeys.get(keyId)
      if (!key) return null
      key.revokedAt ??= toTimestamp(memory.clock())
      return show(key)
    },

    async limitOrganization(organizationId, rateLimit) {
      memory.organization(organizationId).rateLimit = structuredClone(rateLimit)
    },
  }
}

function insert(memory: Memory, organizationId: string, record: ApiKeyRecord): void {
  const organization = memory.organization(organizationId)
  if (organization.apiKeys.has(record.id)) return
  // Two keys never share a digest; a second owner would take the key away from the first.
  if (memory.digests.has(record.digest)) throw new Error('Cannot insert an API key as its digest is taken')
  const key: KeptApiKey = { record, revokedAt: null, lastUsedAt: null, bucketFullAt: 0 }
  organization.apiKeys.set(record.id, key)
  memory.digests.set(record.digest, { organization, key })
}

function show({ record, revokedAt, lastUsedAt }: KeptApiKey): ApiKey {
  const { digest: _, ...shown } = structuredClone(record)
  return { ...shown, revokedAt, lastUsedAt }
}
