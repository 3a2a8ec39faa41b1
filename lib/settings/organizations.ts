import type { BusinessApiStore } from '../business-store.ts'
import { defineCall } from './calls.ts'

/** Options of `organizations.delete`. */
export interface OrganizationDeletion {
  /** Called after each part with the number of rows deleted so far. */
  readonly onProgress?: ((deleted: number) => void) | undefined
}

/** The calls about organizations as a whole. */
export interface OrganizationSettings {
  /**
   * Deletes an organization for good, with everything that belongs to it: records, events, deliveries and attempts, idempotency
   * entries, document numbers, audit entries, endpoints with their secrets, limits and API keys. API keys are revoked and
   * endpoints removed first. The work is done in parts of 1000 rows; after an interruption the same call does the rest. Calls of
   * the host's own code for the organization must have ended: what they write meanwhile is deleted too, or stays.
   *
   * What subscribers have received, backups and the write-ahead log of the database are beyond the call.
   *
   * @returns the number of deleted rows, by the name of the store's collection
   */
  delete(organizationId: string, options?: OrganizationDeletion): Promise<Readonly<Record<string, number>>>
}

/** Rows of a part, which is one statement. */
const PART_LIMIT = 1000

const readDelete = defineCall('Cannot delete the organization', {})

/** Creates the calls about organizations as a whole. */
export function createOrganizationSettings({
  organizations,
}: Pick<BusinessApiStore, 'organizations'>): OrganizationSettings {
  return {
    async delete(organizationId, { onProgress } = {}) {
      const { organizationId: owner } = readDelete(organizationId)
      const sums: Record<string, number> = {}
      for (;;) {
        const part = Object.entries(await organizations.deletePart(owner, PART_LIMIT))
        if (part.length === 0) return sums
        for (const [name, count] of part) sums[name] = (sums[name] ?? 0) + count
        onProgress?.(Object.values(sums).reduce((sum, count) => sum + count, 0))
      }
    },
  }
}
