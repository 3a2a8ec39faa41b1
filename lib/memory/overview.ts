import { OVERVIEW_COUNT_MAX, type OverviewStore } from '../webhooks/overview.ts'
import { isInForce } from './admission.ts'
import { showKey } from './api-keys.ts'
import { showEndpoint } from './endpoints.ts'
import type { Memory } from './state.ts'

/** Creates the slice of the overview in memory. */
export function createOverviewStore(memory: Memory): OverviewStore {
  return {
    async read(organizationId, { keysWithinMs, failedWithinMs, limit }) {
      const now = memory.clock()
      const organization = memory.organization(organizationId)
      const keys = [...organization.apiKeys.values()]
      const endpoints = [...organization.endpoints.values()].filter(({ isRemoved }) => !isRemoved)
      const inForce = keys.filter((key) => isInForce(key, now))
      const failed = [...organization.deliveries.values()].filter(
        ({ state, createdAt, endpoint }) =>
          state === 'failed' && createdAt >= now - failedWithinMs && !endpoint.isRemoved,
      )
      return {
        hasApiKey: inForce.length > 0,
        hasUsedApiKey: keys.some(({ lastUsedAt }) => lastUsedAt !== null),
        hasEndpoint: endpoints.length > 0,
        troubledEndpoints: endpoints
          .filter(({ state, failures }) => state === 'disabled' || failures > 0)
          .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
          .slice(0, limit)
          .map((endpoint) => showEndpoint(endpoint, now)),
        expiringApiKeys: inForce
          .filter(({ record, successorId }) => {
            return (
              record.expiresAt !== null &&
              successorId === null &&
              Date.parse(record.expiresAt) <= now + keysWithinMs
            )
          })
          .sort((one, other) => (String(one.record.expiresAt) < String(other.record.expiresAt) ? -1 : 1))
          .slice(0, limit)
          .map(showKey),
        failedDeliveries: Math.min(failed.length, OVERVIEW_COUNT_MAX),
      }
    },
  }
}
