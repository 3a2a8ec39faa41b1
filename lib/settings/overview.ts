import { defineCall } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { Overview } from '../webhooks/overview.ts'

/** The state of an organization's settings at a glance. */
export interface OverviewSettings {
  /**
   * Gives everything that needs an administrator, in one round trip: endpoints that are disabled or fail, keys that expire
   * within 7 days and have no successor, and the number of deliveries that failed in the last 24 hours.
   */
  get(organizationId: string): Promise<Overview>
}

const DAY_MS = 24 * 60 * 60 * 1000
const REQUEST = { keysWithinMs: 7 * DAY_MS, failedWithinMs: DAY_MS, limit: 20 } as const

const readGet = defineCall('Cannot show the overview', {})

/** Creates the call of the overview. */
export function createOverviewSettings({ overview }: Pick<BusinessApiStore, 'overview'>): OverviewSettings {
  return {
    async get(organizationId) {
      return overview.read(readGet(organizationId).organizationId, REQUEST)
    },
  }
}
