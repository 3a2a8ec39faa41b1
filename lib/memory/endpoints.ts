import type { EndpointRecord, EndpointStore, WebhookEndpoint } from '../endpoints.ts'
import { toTimestamp } from '../making.ts'
import type { KeptEndpoint, Memory } from './memory.ts'

/** Webhook endpoints in memory. */
export function createEndpointStore(memory: Memory): EndpointStore {
  return {
    async insert(organizationId, endpoint) {
      insert(memory, organizationId, structuredClone(endpoint))
    },

    async list(organizationId) {
      const now = memory.clock()
      return [...memory.organization(organizationId).endpoints.values()]
        .filter(({ isRemoved }) => !isRemoved)
        .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
        .map((endpoint) => show(endpoint, now))
    },

    async update(organizationId, endpointId, changes) {
      const endpoint = find(memory, organizationId, endpointId)
      if (!endpoint) return null
      endpoint.record = { ...endpoint.record, ...structuredClone(changes) }
      return show(endpoint, memory.clock())
    },

    async setState(organizationId, endpointId, state, from) {
      const endpoint = find(memory, organizationId, endpointId)
      if (!endpoint) return null
      if (from.includes(endpoint.state) && endpoint.state !== state) {
        endpoint.state = state
        endpoint.disabledReason = state === 'disabled' ? 'administrator' : null
        if (state === 'enabled') enable(memory, endpoint)
      }
      return show(endpoint, memory.clock())
    },

    async remove(organizationId, endpointId) {
      const endpoint = find(memory, organizationId, endpointId)
      if (!endpoint) return false
      endpoint.isRemoved = true
      endpoint.record = { ...endpoint.record, headers: {}, sealedSecret: '' }
      endpoint.previousSecret = null
      return true
    },

    async rotateSecret(organizationId, endpointId, sealedSecret, overlapMs) {
      const endpoint = find(memory, organizationId, endpointId)
      if (!endpoint) return null
      const now = memory.clock()
      const { sealedSecret: sealed } = endpoint.record
      if (sealed !== sealedSecret) {
        endpoint.record = { ...endpoint.record, sealedSecret }
        endpoint.previousSecret = overlapMs > 0 ? { sealed, expiresAt: now + overlapMs } : null
      }
      return show(endpoint, now)
    },
  }
}

/** The secret of before the last rotation, as long as it signs too. */
export function previousSecretOf(
  { previousSecret }: KeptEndpoint,
  now: number,
): KeptEndpoint['previousSecret'] {
  return previousSecret !== null && previousSecret.expiresAt > now ? previousSecret : null
}

function insert(memory: Memory, organizationId: string, record: EndpointRecord): void {
  const { endpoints } = memory.organization(organizationId)
  if (endpoints.has(record.id)) return
  endpoints.set(record.id, {
    organizationId,
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
function find(memory: Memory, organizationId: string, endpointId: string): KeptEndpoint | null {
  const endpoint = memory.organization(organizationId).endpoints.get(endpointId)
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
