import type { Business, BusinessStore } from '../resources/businesses.ts'
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
      return listRecords(business.values(), { limit, before, isWanted: () => true })
    },

    async get(organizationId, id) {
      return getRecord(memory.organization(organizationId).records.business.get(id))
    },

    async change(change) {
      return applyChange(memory, change, {
        find: ({ records }) => records.business.get(change.recordId),
        stateOf: () => '',
        represent: (business) => business,
        decide(stored, organization) {
          const business = { ...stored, ...change.set }
          return {
            representation: business,
            write: () => replaceBusiness(organization, business),
            events: change.events,
          }
        },
      })
    },
  }
}

/** Stores a changed business. If it belongs to a client, this counts as a change to the client, too. */
export function replaceBusiness(organization: Organization, business: Business): void {
  organization.records.business.set(business.id, business)
  const client = clientOf(organization, business.id)
  if (client) organization.records.client.set(client.id, client)
}
