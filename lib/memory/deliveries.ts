import type { Backlog, DeliveryStore } from '../webhooks/deliveries.ts'
import { release, writeResults } from './attempts.ts'
import { claim, readClaims } from './claims.ts'
import {
  cancelDelivery,
  countDeliveries,
  getDelivery,
  listDeliveries,
  recoverDeliveries,
} from './delivery-log.ts'
import { countQueue } from './queue-counts.ts'
import { continuePurge, purge } from './retention.ts'
import type { Memory } from './state.ts'

/** Creates the slice of deliveries in memory. */
export function createDeliveryStore(memory: Memory): DeliveryStore {
  return {
    async claim(request) {
      return claim(memory, request)
    },

    async read(claims) {
      return readClaims(memory, claims)
    },

    async writeResults(results, limit) {
      return writeResults(memory, results, limit)
    },

    async release(claims) {
      release(memory, claims)
      return []
    },

    async count(organizationId, filter, max) {
      return countDeliveries(memory.organization(organizationId), filter, max)
    },

    async list(organizationId, filter, limit, before) {
      return listDeliveries(memory.organization(organizationId), filter, limit, before)
    },

    async get(organizationId, deliveryId) {
      return getDelivery(memory.organization(organizationId), deliveryId)
    },

    async listAttempts(organizationId, deliveryIds) {
      const { deliveries } = memory.organization(organizationId)
      const logs = deliveryIds.map((id) => [id, [...(deliveries.get(id)?.attemptLog ?? [])]] as const)
      return new Map(logs.filter(([, log]) => log.length > 0))
    },

    async recover(request) {
      return recoverDeliveries(memory, memory.organization(request.organizationId), request)
    },

    async cancel(request) {
      return cancelDelivery(memory, memory.organization(request.organizationId), request)
    },

    async measure() {
      return measure(memory)
    },

    async countQueue(target) {
      return countQueue(memory, target)
    },

    async purge(request) {
      return purge(memory, request)
    },

    async continuePurge(request) {
      return continuePurge(memory, request)
    },

    watch: (onDue) => memory.wakeUp.watch(onDue),
  }
}

/** Greatest number of due deliveries that are counted. */
const DUE_COUNTED = 100_000

function measure(memory: Memory): Backlog {
  const now = memory.clock()
  const due = [...memory.organizations()]
    .flatMap(({ endpoints }) => [...endpoints.values()])
    .filter(({ state, isRemoved }) => state === 'enabled' && !isRemoved)
    .flatMap(({ pending }) => [...pending])
    .filter(({ dueAt: time }) => time <= now)
  return {
    due: Math.min(due.length, DUE_COUNTED),
    // reduce instead of Math.min(…): a call cannot take so many arguments.
    oldestDueMs:
      now -
      due.filter(({ isBackfill }) => !isBackfill).reduce((oldest, { dueAt }) => Math.min(oldest, dueAt), now),
    inFlight: memory.inFlight.size,
  }
}
