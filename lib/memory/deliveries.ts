import type { DeliveryStore } from '../webhooks/deliveries.ts'
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
