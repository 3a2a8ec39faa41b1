import { isDeepStrictEqual } from 'node:util'
import type { EndpointRecord, EndpointStore, WebhookEndpoint } from '../endpoints.ts'
import { toTimestamp } from '../making.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { KeptEndpoint, Memory, Organization } from './memory.ts'

/** Webhook endpoints in memory. */
export function createEndpointStore(memory: Memory): EndpointStore {
  return {
    async insert(organizationId, endpoint, entry) {
      const organization = memory.organization(organizationId)
      if (organization.endpoints.has(endpoint.id)) return
      insert(organization, structuredClone(endpoint))
      recordEntry(memory, organization, entry)
    },

    async list(organizationId) {
      const now = memory.clock()
      return [...memory.organization(organizationId).endpoints.values()]
        .filter(({ isRemoved }) => !isRemoved)
        .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
        .map((endpoint) => show(endpoint, now))
    },

    async getTarget(organizationId, endpointId) {
      const endpoint = find(memory.organization(organizationId), endpointId)
      if (!endpoint) return null
      const now = memory.clock()
      const { url, types, headers } = structuredClone(endpoint.record)
      return { url, types, headers, sealedSecrets: sealedSecretsOf(endpoint, now), storeTime: now }
    },

    async update(organizationId, endpointId, changes, entry) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return null
      if (isRecorded(organization, entry)) return show(endpoint, memory.clock())
      const { record: before } = endpoint
      endpoint.record = { ...before, ...structuredClone(changes) }
      const fields = CHANGEABLE.filter((name) => !isDeepStrictEqual(before[name], endpoint.record[name]))
      if (fields.length > 0) {
        recordEntry(memory, organization, { ...entry, details: { ...entry.details, fields } })
      }
      return show(endpoint, memory.clock())
    },

    async setState(organizationId, endpointId, state, from, entry) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return null
      const isMoved = from.includes(endpoint.state) && endpoint.state !== state
      if (isMoved && !isRecorded(organization, entry)) {
        endpoint.state = state
        endpoint.disabledReason = state === 'disabled' ? 'administrator' : null
        if (state === 'enabled') enable(memory, endpoint)
        recordEntry(memory, organization, entry)
      }
      return show(endpoint, memory.clock())
    },

    async remove(organizationId, endpointId, entry) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return isRecorded(organization, entry)
      endpoint.isRemoved = true
      endpoint.record = { ...endpoint.record, headers: {}, sealedSecret: '' }
      endpoint.previousSecret = null
      recordEntry(memory, organization, entry)
      return true
    },

    async rotateSecret(organizationId, endpointId, sealedSecret, overlapMs, entry) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return null
      const now = memory.clock()
      const { sealedSecret: sealed } = endpoint.record
      if (sealed !== sealedSecret && !isRecorded(organization, entry)) {
        endpoint.record = { ...endpoint.record, sealedSecret }
        endpoint.previousSecret = overlapMs > 0 ? { sealed, expiresAt: now + overlapMs } : null
        recordEntry(memory, organization, entry)
      }
      return show(endpoint, now)
    },
  }
}

/** As sealed, the current one first. */
export function sealedSecretsOf(endpoint: KeptEndpoint, now: number): readonly string[] {
  const { sealedSecret } = endpoint.record
  const previous = previousSecretOf(endpoint, now)
  return previous === null ? [sealedSecret] : [sealedSecret, previous.sealed]
}

/** What {@link EndpointChanges} can name, in the order in which an entry does. */
const CHANGEABLE = ['url', 'types', 'description', 'headers'] as const

/** The secret of before the last rotation, as long as it signs too. */
function previousSecretOf({ previousSecret }: KeptEndpoint, now: number): KeptEndpoint['previousSecret'] {
  return previousSecret !== null && previousSecret.expiresAt > now ? previousSecret : null
}

function insert({ id, endpoints }: Organization, record: EndpointRecord): void {
  endpoints.set(record.id, {
    organizationId: id,
    record,
    state: 'enabled',
    disabledReason: null,
    failures: 0,
    failingSince: null,
    noticedAttempt: null,
    previousSecret: null,
    isRemoved: false,
    pending: new Set(),
  })
}

/** One that has been removed is as absent as one that never was. */
function find({ endpoints }: Organization, endpointId: string): KeptEndpoint | null {
  const endpoint = endpoints.get(endpointId)
  return endpoint && !endpoint.isRemoved ? endpoint : null
}

function enable(memory: Memory, endpoint: KeptEndpoint): void {
  endpoint.failures = 0
  endpoint.failingSince = null
  // What has been waiting for it may be due.
  memory.due.announce()
}

function show(endpoint: KeptEndpoint, now: number): WebhookEndpoint {
  const { record, state, disabledReason, failures, failingSince } = endpoint
  const { sealedSecret: _, ...shown } = structuredClone(record)
  const previousSecret = previousSecretOf(endpoint, now)
  return {
    ...shown,
    state,
    disabledReason,
    failures,
    failingSince: failingSince === null ? null : toTimestamp(failingSince),
    previousSecretExpiresAt: previousSecret === null ? null : toTimestamp(previousSecret.expiresAt),
  }
}
