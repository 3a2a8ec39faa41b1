import type { DeliveryAttempt } from '../webhooks/claims.ts'
import type {
  Delivery,
  DeliveryFilter,
  DeliveryStore,
  EventRedelivered,
  EventRedelivery,
  RecoveryRequest,
} from '../webhooks/deliveries.ts'
import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../webhooks/queue-counts.ts'
import { SIGNATURE_HIDDEN_MS } from '../webhooks/signature.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { readActivity, uncountDelivery } from './activity.ts'
import { release, writeResults } from './attempts.ts'
import { countInEntry, isRecorded, recordEntry } from './audit.ts'
import { claim, readClaims } from './claims.ts'
import { subjectsOf } from './event-log.ts'
import { fanOut } from './events.ts'
import { isMatch, isOneOf, listRecords } from './record-list.ts'
import { continuePurge, purge } from './retention.ts'
import type { Memory, Organization, StoredDelivery, StoredEndpoint } from './state.ts'

/** Creates the in-memory slice for deliveries. */
export function createDeliveryStore(memory: Memory): DeliveryStore {
  return {
    claim: async (request) => claim(memory, request),
    read: async (claims) => readClaims(memory, claims),
    writeResults: async (results, limit) => writeResults(memory, results, limit),

    async release(claims) {
      release(memory, claims)
    },

    async count(organizationId, filter, max) {
      return Math.min(oldestFirst(memory.organization(organizationId), filter).length, max)
    },

    async countRecoverable(organizationId, filter, max) {
      return Math.min(
        oldestFirst(memory.organization(organizationId), filter).filter(isRecoverable).length,
        max,
      )
    },

    async list(organizationId, filter, limit, before) {
      return listRecords(oldestFirst(memory.organization(organizationId), filter).map(show), {
        limit,
        before,
      })
    },

    async get(organizationId, deliveryId) {
      const delivery = memory.organization(organizationId).deliveries.get(deliveryId)
      if (!delivery) return null
      return { ...show(delivery), body: delivery.event.body, attemptLog: attemptsOf(memory, delivery) }
    },

    async listAttempts(organizationId, deliveryIds) {
      const { deliveries } = memory.organization(organizationId)
      const logs = deliveryIds.map((id) => [id, attemptsOf(memory, deliveries.get(id))] as const)
      return new Map(logs.filter(([, log]) => log.length > 0))
    },

    recover: async (request) => recoverDeliveries(memory, request),
    redeliverEvent: async (request) => redeliverEvent(memory, request),

    async cancel({ organizationId, deliveryId, entry }) {
      const organization = memory.organization(organizationId)
      const delivery = organization.deliveries.get(deliveryId)
      if (isRecorded(organization, entry)) return true
      if (delivery?.state !== 'pending') return false
      memory.move(delivery, { state: 'cancelled', finishedAt: memory.clock() })
      recordEntry(memory, organization, entry)
      return true
    },

    countQueue: async (target) => countQueue(memory, target),

    async readActivity(request) {
      const { organizationId, endpointId } = request
      const queue = countQueue(memory, { organizationId, ...(endpointId !== null && { endpointId }) })
      return { ...readActivity(memory, request), queue }
    },

    purge: async (request) => purge(memory, request),
    continuePurge: async (request) => continuePurge(memory, request),

    watch: (onDue) => memory.wakeUp.watch(onDue),
  }
}

// --- Log ---

/** Returns a delivery's attempts. Recent ones don't include the signature. */
function attemptsOf(memory: Memory, delivery: StoredDelivery | undefined): readonly DeliveryAttempt[] {
  const isYoung = ({ startedAt }: DeliveryAttempt): boolean =>
    Date.parse(startedAt) > memory.clock() - SIGNATURE_HIDDEN_MS
  return (delivery?.attemptLog ?? []).map((attempt) => {
    if (attempt.headers === null || !isYoung(attempt)) return attempt
    const { signed: _, ...headers } = attempt.headers
    return { ...attempt, headers }
  })
}

function isRecoverable({ state, endpoint }: StoredDelivery): boolean {
  return state !== 'pending' && state !== 'sending' && !endpoint.isRemoved
}

/** Starts a new round for finished deliveries, and for pending ones if requested. See `DeliveryStore.recover`. */
function recoverDeliveries(
  memory: Memory,
  { organizationId, ids, filter, limit, entry }: RecoveryRequest,
): readonly string[] {
  const organization = memory.organization(organizationId)
  const now = memory.clock()
  // The delivery recovered by an earlier call with the same entry whose response was lost.
  const before = organization.audit.get(entry.id)?.subjectId
  const isBackingOff = ({ state, dueAt, endpoint }: StoredDelivery): boolean =>
    state === 'pending' && dueAt > now && !endpoint.isRemoved
  const matching = oldestFirst(organization, filter).filter(({ id }) => id !== before && ids.includes(id))
  const pending = filter.states?.includes('pending') ? matching.filter(isBackingOff) : []
  const recovered = [...matching.filter(isRecoverable), ...pending].slice(0, limit)
  for (const delivery of recovered) {
    const { attempts: attemptsBefore } = delivery
    uncountDelivery(memory, delivery)
    memory.move(delivery, { state: 'pending', attemptsBefore, dueAt: now, reason: null, finishedAt: null })
  }
  if (recovered.length > 0) {
    countInEntry(memory, organization, entry, { recovered: recovered.length })
    memory.wakeUp.signal()
  }
  const again = before !== undefined && ids.includes(before) ? [before] : []
  return [...recovered.map(({ id }) => id), ...again]
}

/** Sends an event to one endpoint. Creates a skipped delivery first if there isn't one yet. */
function redeliverEvent(
  memory: Memory,
  { organizationId, eventId, endpointId, entry }: EventRedelivery,
): EventRedelivered {
  const organization = memory.organization(organizationId)
  const event = organization.events.get(eventId)
  if (!event) return { outcome: 'no event', deliveryId: null }
  const endpoint = organization.endpoints.get(endpointId)
  if (!endpoint || endpoint.isRemoved) return { outcome: 'no endpoint', deliveryId: null }
  let delivery = event.deliveries.findLast((one) => one.endpoint === endpoint)
  if (!delivery) {
    delivery = fanOut(memory, organization, event.record, endpoint)
    memory.move(delivery, { state: 'skipped', reason: null, finishedAt: memory.clock() })
    organization.events.set(eventId, { ...event, deliveries: [...event.deliveries, delivery] })
  }
  const { id } = delivery
  const request = { organizationId, ids: [id], filter: {}, limit: 1, entry: { ...entry, subjectId: id } }
  const recovered = recoverDeliveries(memory, request)
  return { outcome: recovered.includes(id) ? 'sent' : 'open', deliveryId: id }
}

/** Returns the deliveries that match a filter, sorted by id. ULIDs sort by time. */
function oldestFirst(organization: Organization, filter: DeliveryFilter): readonly StoredDelivery[] {
  const subjects = subjectsOf(organization, filter.subjectId)
  return [...organization.deliveries.values()]
    .filter(({ event }) => subjects === undefined || subjects.has(event.subjectId))
    .filter((delivery) => isLetThrough(delivery, filter))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
}

function isLetThrough(
  delivery: StoredDelivery,
  { states, subjectId: _, ...filter }: DeliveryFilter,
): boolean {
  const shown = show(delivery)
  return isOneOf(states, shown.state) && isMatch(shown, shown.createdAt, filter)
}

function show(delivery: StoredDelivery): Delivery {
  const { id, event, endpoint, state, attempts, dueAt, reason, createdAt, finishedAt } = delivery
  const last = delivery.attemptLog.at(-1)
  return {
    id,
    eventId: event.id,
    type: event.type,
    subjectId: event.subjectId ?? null,
    endpointId: endpoint.record.id,
    state,
    attempts,
    dueAt: state === 'pending' ? toTimestamp(dueAt) : null,
    reason,
    createdAt: toTimestamp(createdAt),
    finishedAt: finishedAt === null ? null : toTimestamp(finishedAt),
    lastStatus: last?.status ?? null,
    lastError: last?.error ?? null,
  }
}

// --- Queue ---

/** Counts the queue. See `DeliveryStore.countQueue`. */
function countQueue(memory: Memory, target: QueueTarget | null): QueueCounts {
  const now = memory.clock()
  const organizations = target ? [memory.organization(target.organizationId)] : [...memory.organizations()]
  const isWanted = ({ endpoint }: StoredDelivery): boolean =>
    target?.endpointId === undefined || endpoint.record.id === target.endpointId
  const pending = organizations
    .flatMap(({ endpoints }) => [...endpoints.values()])
    .flatMap((endpoint) => [...endpoint.pending])
    .filter(isWanted)
  const ready = pending.filter(({ dueAt }) => dueAt <= now)
  const due = ready.filter(({ endpoint }) => isIn(endpoint, 'enabled'))
  const finished = organizations.flatMap(({ deliveries }) => [...deliveries.values()]).filter(isWanted)
  return {
    due: capped(due.length),
    // We don't use Math.min(…) because it can't take that many arguments.
    oldestDueMs:
      now -
      due.filter(({ isBackfill }) => !isBackfill).reduce((oldest, { dueAt }) => Math.min(oldest, dueAt), now),
    backingOff: capped(
      pending.filter(
        ({ dueAt, endpoint }) => dueAt > now && (isIn(endpoint, 'enabled') || isIn(endpoint, 'paused')),
      ).length,
    ),
    paused: capped(ready.filter(({ endpoint }) => isIn(endpoint, 'paused')).length),
    sending: capped(finished.filter(({ state }) => state === 'sending').length),
    failed: capped(finished.filter(({ state }) => state === 'failed').length),
  }
}

function isIn({ state, isRemoved }: StoredEndpoint, wanted: 'enabled' | 'paused'): boolean {
  return !isRemoved && state === wanted
}

function capped(count: number): number {
  return Math.min(count, QUEUE_COUNT_MAX + 1)
}
