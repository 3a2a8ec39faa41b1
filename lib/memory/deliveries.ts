import type { Backlog, DeliveryStore } from '../deliveries.ts'
import { record, release } from './attempts.ts'
import { claim } from './claims.ts'
import { cancelDelivery, getDelivery, listDeliveries, replayDeliveries } from './delivery-log.ts'
import type { Memory } from './memory.ts'
import { purge } from './retention.ts'

/** Deliveries in memory. */
export function createDeliveryStore(memory: Memory): DeliveryStore {
  return {
    async claim(request) {
      return claim(memory, request)
    },

    async record(results, limit) {
      return record(memory, results, limit)
    },

    async release(claims) {
      release(memory, claims)
    },

    async list(organizationId, filter, limit, before) {
      return listDeliveries(memory.organization(organizationId), filter, limit, before)
    },

    async get(organizationId, deliveryId) {
      return getDelivery(memory.organization(organizationId), deliveryId)
    },

    async replay(organizationId, ids, filter, limit, entry) {
      return replayDeliveries(memory, memory.organization(organizationId), ids, filter, limit, entry)
    },

    async cancel(organizationId, deliveryId, entry) {
      return cancelDelivery(memory, memory.organization(organizationId), deliveryId, entry)
    },

    async measure() {
      return measure(memory)
    },

    async purge(request) {
      return purge(memory, request)
    },

    watch: (onDue) => memory.due.watch(onDue),
  }
}

/** Above this a backlog is a backlog. */
const DUE_COUNTED = 100_000

function measure(memory: Memory): Backlog {
  const now = memory.clock()
  const dueAt = [...memory.organizations()]
    .flatMap(({ endpoints }) => [...endpoints.values()])
    .filter(({ state, isRemoved }) => state === 'enabled' && !isRemoved)
    .flatMap(({ pending }) => [...pending].map((delivery) => delivery.dueAt))
    .filter((time) => time <= now)
  return {
    due: Math.min(dueAt.length, DUE_COUNTED),
    // Not as arguments of Math.min: there can be more of them than a call takes.
    oldestDueMs: now - dueAt.reduce((oldest, time) => Math.min(oldest, time), now),
    inFlight: memory.inFlight.size,
  }
}
