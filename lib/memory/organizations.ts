import type { OrganizationStore } from '../access/organizations.ts'
import type { Memory } from './state.ts'

/** Creates the slice of organizations in memory: one part deletes everything. */
export function createOrganizationStore(memory: Memory): OrganizationStore {
  return {
    async deletePart(organizationId) {
      const organization = memory.organization(organizationId)
      const counts = Object.entries(organization).flatMap(([name, collection]): [string, number][] => {
        return collection instanceof Map && collection.size > 0 ? [[name, collection.size]] : []
      })
      for (const delivery of organization.deliveries.values()) {
        memory.move(delivery, { state: 'cancelled', claim: null })
      }
      for (const { record } of organization.apiKeys.values()) memory.digests.delete(record.digest)
      memory.remove(organizationId)
      return Object.fromEntries(counts)
    },
  }
}
