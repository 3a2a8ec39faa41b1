import { isDeepStrictEqual } from 'node:util'
import type { EndpointRef } from '../webhooks/claims.ts'
import { ENDPOINT_CHOICES } from '../webhooks/endpoint-choices.ts'
import {
  type EndpointChangeOutcome,
  type EndpointRecord,
  type EndpointStore,
  type EndpointTarget,
  SENT_FIELDS,
  type SealedForms,
  type WebhookEndpoint,
} from '../webhooks/endpoints.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isChangeMade, isRecorded, recordEntry } from './audit.ts'
import type { Memory, Organization, StoredEndpoint } from './state.ts'

// Longer than 250 lines to keep all changes to an endpoint, including audit entries and repeated calls, in one place.

/** Creates the in-memory slice for webhook endpoints. */
export function createEndpointStore(memory: Memory): EndpointStore {
  return {
    async insert({ organizationId, endpoint: record, limit, entry }) {
      const organization = memory.organization(organizationId)
      const now = memory.clock()
      const present = organization.endpoints.get(record.id)
      if (present) {
        if (present.isRemoved) return { outcome: 'already_exists', item: null }
        const isOurs = present.record.sealedSecret === record.sealedSecret
        return { outcome: isOurs ? 'inserted' : 'already_exists', item: showEndpoint(present, now) }
      }
      const others = [...organization.endpoints.values()].filter(({ isRemoved }) => !isRemoved)
      if (others.length >= limit) return { outcome: 'limit_reached' }
      const endpoint = insert(organization, structuredClone(record))
      recordEntry(memory, organization, entry)
      return { outcome: 'inserted', item: showEndpoint(endpoint, now) }
    },

    async get(organizationId, endpointId) {
      const endpoint = find(memory.organization(organizationId), endpointId)
      return endpoint ? showEndpoint(endpoint, memory.clock()) : null
    },

    async list(organizationId) {
      const now = memory.clock()
      return [...memory.organization(organizationId).endpoints.values()]
        .filter(({ isRemoved }) => !isRemoved)
        .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
        .map((endpoint) => showEndpoint(endpoint, now))
    },

    async listRemoved(organizationId, limit, before) {
      return [...memory.organization(organizationId).endpoints.values()]
        .filter(({ isRemoved, record }) => isRemoved && (before === null || record.id < before))
        .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
        .slice(0, limit)
        .map(({ record: { id, url, description, types, createdAt } }) =>
          structuredClone({ id, url, description, types, createdAt }),
        )
    },

    async getTarget(organizationId, endpointId) {
      const endpoint = find(memory.organization(organizationId), endpointId)
      if (!endpoint) return null
      const now = memory.clock()
      return { ...targetOf(endpoint, now), types: structuredClone(endpoint.record.types), storeTime: now }
    },

    async update({ organizationId, endpointId, changes, replaces, entry }) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return null
      const answer = (outcome: EndpointChangeOutcome['outcome']) => ({
        outcome,
        endpoint: showEndpoint(endpoint, memory.clock()),
      })
      if (isRecorded(organization, entry)) return answer('changed')
      const { record: before } = endpoint
      const { headers, ...fields } = structuredClone(changes)
      const isOlder = replaces !== undefined && replaces !== endpoint.version
      if (isOlder || (headers && headers.replaces !== before.sealedHeaders)) return answer('conflict')
      const { headerNames, sealedHeaders } = headers ?? before
      const after = { ...before, ...fields, headerNames, sealedHeaders }
      const changed = CHANGEABLE.filter(
        ([, field]) => !isDeepStrictEqual(Reflect.get(before, field), Reflect.get(after, field)),
      )
      endpoint.record = after
      if (changed.some(([, field]) => field === 'url' || field === 'maxPerSecond')) endpoint.rate = null
      if (changed.length > 0) {
        endpoint.version++
        const details = { ...entry.details, fields: changed.map(([name]) => name) }
        recordEntry(memory, organization, { ...entry, details })
      }
      return answer('changed')
    },

    async setState({ organizationId, endpointId, state, from, entry }) {
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
      return showEndpoint(endpoint, memory.clock())
    },

    async remove({ organizationId, endpointId, entry }) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return isRecorded(organization, entry)
      endpoint.isRemoved = true
      endpoint.record = { ...endpoint.record, headerNames: [], sealedHeaders: null, sealedSecret: '' }
      endpoint.previousSecret = null
      recordEntry(memory, organization, entry)
      return true
    },

    async rotateSecret({ organizationId, endpointId, changeId, sealedSecret, overlapMs, entry }) {
      const organization = memory.organization(organizationId)
      const endpoint = find(organization, endpointId)
      if (!endpoint) return null
      const now = memory.clock()
      const { sealedSecret: sealed } = endpoint.record
      const isMade = isRecorded(organization, entry) || isChangeMade(organization, entry.subjectId, changeId)
      if (sealed !== sealedSecret && !isMade) {
        endpoint.record = { ...endpoint.record, sealedSecret }
        endpoint.previousSecret = overlapMs > 0 ? { sealed, expiresAt: now + overlapMs } : null
        recordEntry(memory, organization, { ...entry, details: { ...entry.details, changeId } })
      }
      const isOurs = endpoint.record.sealedSecret === sealedSecret
      return { outcome: isOurs ? 'rotated' : 'already_exists', endpoint: showEndpoint(endpoint, now) }
    },

    async listSealed(limit, after) {
      const now = memory.clock()
      return [...memory.organizations()]
        .flatMap(({ endpoints }) => [...endpoints.values()])
        .filter(({ isRemoved }) => !isRemoved)
        .map((endpoint) => ({
          organizationId: endpoint.organizationId,
          endpointId: endpoint.record.id,
          headerNames: [...endpoint.record.headerNames],
          ...formsOf(endpoint),
          isPreviousExpired: endpoint.previousSecret !== null && previousSecretOf(endpoint, now) === null,
        }))
        .filter((endpoint) => after === null || placeOf(endpoint) > placeOf(after))
        .sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1))
        .slice(0, limit)
    },

    async exchangeSealed({ organizationId, endpointId, from, to }) {
      const endpoint = find(memory.organization(organizationId), endpointId)
      if (!endpoint) return false
      const { sealedSecret, previousSealedSecret, sealedHeaders } = from
      const present = formsOf(endpoint)
      if (isDeepStrictEqual(present, { sealedSecret, previousSealedSecret, sealedHeaders })) {
        const { previousSecret, record } = endpoint
        const { sealedSecret, previousSealedSecret: sealed, sealedHeaders } = to
        endpoint.record = { ...record, sealedSecret, sealedHeaders }
        endpoint.previousSecret = previousSecret && sealed !== null ? { ...previousSecret, sealed } : null
        return true
      }
      return isDeepStrictEqual(present, to)
    },
  }
}

function formsOf({ record, previousSecret }: StoredEndpoint): SealedForms {
  const { sealedSecret, sealedHeaders } = record
  return { sealedSecret, previousSealedSecret: previousSecret?.sealed ?? null, sealedHeaders }
}

/** Returns the endpoint details that an attempt needs. */
export function targetOf(endpoint: StoredEndpoint, now: number): EndpointTarget {
  const { record } = endpoint
  const fields = Object.fromEntries(SENT_FIELDS.map((field) => [field, structuredClone(record[field])]))
  const previous = previousSecretOf(endpoint, now)
  const sealedSecrets = [record.sealedSecret, ...(previous === null ? [] : [previous.sealed])]
  return { ...(fields as object as Omit<EndpointTarget, 'sealedSecrets'>), sealedSecrets }
}

/** Names of changes in audit entries, in order, each with the field that changed. */
const CHANGEABLE = [
  ...ENDPOINT_CHOICES.map(({ field }) => [field, field] as const),
  ['headers', 'sealedHeaders'],
] as const

/** Returns the secret used before the last rotation, or `null` if the overlap period has ended. */
function previousSecretOf({ previousSecret }: StoredEndpoint, now: number): StoredEndpoint['previousSecret'] {
  return previousSecret !== null && previousSecret.expiresAt > now ? previousSecret : null
}

function insert({ id, endpoints }: Organization, record: EndpointRecord): StoredEndpoint {
  const endpoint: StoredEndpoint = {
    organizationId: id,
    record,
    version: 0,
    state: 'enabled',
    disabledReason: null,
    failures: 0,
    failingSince: null,
    noticedAttempt: null,
    previousSecret: null,
    isRemoved: false,
    rate: null,
    pending: new Set(),
  }
  endpoints.set(record.id, endpoint)
  return endpoint
}

/** Returns a string that sorts by organization, then endpoint. NUL sorts first and never occurs in an id. */
export function placeOf({ organizationId, endpointId }: EndpointRef): string {
  return `${organizationId}\0${endpointId}`
}

function find({ endpoints }: Organization, endpointId: string): StoredEndpoint | null {
  const endpoint = endpoints.get(endpointId)
  return endpoint && !endpoint.isRemoved ? endpoint : null
}

function enable(memory: Memory, endpoint: StoredEndpoint): void {
  endpoint.failures = 0
  endpoint.failingSince = null
  endpoint.rate = null
  // Deliveries that were waiting for this endpoint may be due.
  memory.wakeUp.signal()
}

/** Returns an endpoint without its secrets, as shown to administrators. */
export function showEndpoint(endpoint: StoredEndpoint, now: number): WebhookEndpoint {
  const { record, version, state, disabledReason, failures, failingSince } = endpoint
  const { sealedSecret: _, sealedHeaders: __, ...shown } = structuredClone(record)
  const previousSecret = previousSecretOf(endpoint, now)
  return {
    ...shown,
    version,
    state,
    disabledReason,
    failures,
    failingSince: failingSince === null ? null : toTimestamp(failingSince),
    previousSecretExpiresAt: previousSecret === null ? null : toTimestamp(previousSecret.expiresAt),
  }
}
