import type { BusinessStore } from '../resources/businesses.ts'
import { applyChange } from './change.ts'
import { clientOf } from './clients.ts'
import { getRecord, listRecords } from './record-list.ts'
import { createRecord } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the in-memory slice for businesses. */
export function createBusinessRecordStore(memory: Memory): BusinessStore {
  return {
    create: async (creation) => createRecord(memory, ({ records }) => records.business, creation),

    async list(organizationId, _filter, limit, before) {
      const { business } = memory.organization(organizationId).records
      return listRecords(business.values(), { limit, before })
    },

    async get(organizationId, id) {
      return getRecord(memory.organization(organizationId).records.business.get(id))
    },

    async change(change) {
      return applyChange(memory, change, {
        records: ({ records }) => records.business,
        stateOf: () => '',
        represent: (business) => business,
        decide: (stored, organization) => ({
          record: { ...stored, ...change.set },
          also: () => touchClient(organization, stored.id),
        }),
      })
    },
  }
}

/** Counts a change to a business as a change to the client it has become, if any. */
export function touchClient(organization: Organization, businessId: string): void {
  const client = clientOf(organization, businessId)
  if (client) organization.records.client.set(client.id, client)
}
