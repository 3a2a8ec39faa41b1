import { isDeepStrictEqual } from 'node:util'
import type { ApiKey, ApiKeyRecord, ApiKeyStore } from '../access/api-keys.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { admit, isInForce, isLastUseStale } from './admission.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { Memory, Organization, StoredApiKey } from './state.ts'

/** Creates the in-memory slice for API keys and admission. */
export function createApiKeyStore(memory: Memory): ApiKeyStore {
  return {
    async identify(digests) {
      const now = memory.clock()
      const found = new Map<string, string>()
      for (const digest of digests) {
        const stored = memory.digests.get(digest)
        if (stored && isInForce(stored.key, now)) found.set(digest, stored.organization.id)
      }
      return found
    },

    admit: async (request) => admit(memory, request),

    async markUsed(organizationId, keyId) {
      const now = memory.clock()
      const key = memory.organization(organizationId).apiKeys.get(keyId)
      if (key && isLastUseStale(key, now)) key.lastUsedAt = toTimestamp(now)
    },

    async insert({ organizationId, key: record, limit, entry }) {
      const organization = memory.organization(organizationId)
      const present = organization.apiKeys.get(record.id)
      if (present) {
        const isOurs = present.record.digest === record.digest
        return { outcome: isOurs ? 'inserted' : 'already_exists', item: showKey(present) }
      }
      if (countInForce(organization, memory.clock()) >= limit) return { outcome: 'limit_reached' }
      if (memory.digests.has(record.digest)) return { outcome: 'already_exists', item: null }
      const key = insert(memory, organization, structuredClone(record))
      recordEntry(memory, organization, entry)
      return { outcome: 'inserted', item: showKey(key) }
    },

    async get(organizationId, keyId) {
      const key = memory.organization(organizationId).apiKeys.get(keyId)
      return key ? showKey(key) : null
    },

    async list(organizationId) {
      const newestFirst = [...memory.organization(organizationId).apiKeys]
        .sort(([one], [other]) => (one < other ? 1 : -1))
        .map(([, key]) => key)
      return newestFirst.map(showKey)
    },

    async update({ organizationId, keyId, name, replaces, entry }) {
      const organization = memory.organization(organizationId)
      const key = organization.apiKeys.get(keyId)
      if (!key) return null
      const isExpected = replaces === undefined || replaces === key.record.name
      if (isExpected && key.record.name !== name && !isRecorded(organization, entry)) {
        key.record = { ...key.record, name }
        recordEntry(memory, organization, entry)
      }
      return showKey(key)
    },

    async revoke({ organizationId, keyId, entry }) {
      const organization = memory.organization(organizationId)
      const key = organization.apiKeys.get(keyId)
      if (!key) return null
      if (key.revokedAt === null) {
        key.revokedAt = toTimestamp(memory.clock())
        recordEntry(memory, organization, entry)
      }
      return showKey(key)
    },

    async rotate({ organizationId, keyId, successor, overlapMs, limit, entry }) {
      const organization = memory.organization(organizationId)
      const key = organization.apiKeys.get(keyId)
      if (!key) return null
      const present = organization.apiKeys.get(successor.id)
      if (present) {
        const isOurs = key.successorId === successor.id && present.record.digest === successor.digest
        const outcome = isOurs ? 'rotated' : 'already_exists'
        return { outcome, key: showKey(present), previous: showKey(key) }
      }
      const now = memory.clock()
      const refuse = (outcome: 'refused' | 'limit_reached') => ({
        outcome,
        key: null,
        previous: showKey(key),
      })
      if (key.successorId !== null || !isInForce(key, now)) return refuse('refused')
      if (overlapMs > 0 && countInForce(organization, now) >= limit) return refuse('limit_reached')
      const { name, scopes, rateLimit, expiresAt } = key.record
      const record = structuredClone({ name, scopes, rateLimit, expiresAt, ...successor })
      const made = insert(memory, organization, record)
      key.successorId = successor.id
      end(key, now, overlapMs)
      recordEntry(memory, organization, entry)
      return { outcome: 'rotated', key: showKey(made), previous: showKey(key) }
    },

    async limitOrganization({ organizationId, rateLimit, entry }) {
      const organization = memory.organization(organizationId)
      if (isDeepStrictEqual(organization.rateLimit, rateLimit) || isRecorded(organization, entry)) return
      organization.rateLimit = structuredClone(rateLimit)
      if (rateLimit === null) organization.bucketFullAt = 0
      recordEntry(memory, organization, entry)
    },

    async readResets(organizationId) {
      const now = memory.clock()
      const resets = [...memory.organization(organizationId).apiKeys].map(
        ([id, { bucketFullAt }]) => [id, bucketFullAt - now] as const,
      )
      return Object.fromEntries(resets.filter(([, resetMs]) => resetMs > 0))
    },

    async getOrganizationLimit(organizationId) {
      return structuredClone(memory.organization(organizationId).rateLimit)
    },
  }
}

function countInForce({ apiKeys }: Organization, now: number): number {
  return [...apiKeys.values()].filter((key) => isInForce(key, now)).length
}

function insert(memory: Memory, organization: Organization, record: ApiKeyRecord): StoredApiKey {
  // Digests must be unique. Otherwise a second owner would take over the first owner's key.
  if (memory.digests.has(record.digest))
    throw new Error('Cannot insert an API key because its digest is already in use')
  const key: StoredApiKey = { record, revokedAt: null, successorId: null, lastUsedAt: null, bucketFullAt: 0 }
  organization.apiKeys.set(record.id, key)
  memory.digests.set(record.digest, { organization, key })
  return key
}

/** Ends a key after the overlap, or immediately if it's 0. */
function end(key: StoredApiKey, now: number, overlapMs: number): void {
  if (overlapMs === 0) key.revokedAt = toTimestamp(now)
  else key.record = { ...key.record, expiresAt: earlier(key.record.expiresAt, toTimestamp(now + overlapMs)) }
}

/** Returns the earlier timestamp. They all have the same format, so we can compare strings. */
function earlier(one: string | null, other: string): string {
  return one !== null && one < other ? one : other
}

/** Returns a key without its digest, as shown to administrators. */
export function showKey({ record, revokedAt, successorId, lastUsedAt }: StoredApiKey): ApiKey {
  const { digest: _, ...shown } = structuredClone(record)
  return { ...shown, revokedAt, successorId, lastUsedAt }
}
