import type { BusinessStore } from '../resources/businesses.ts'
import { applyChange } from './change.ts'
import { getRecord, listRecords } from './record-list.ts'
import { createRecord } from './record-slice.ts'
import type { Memory } from './state.ts'

/** Creates the slice of businesses in memory. */
export function createBusinessRecordStore(memory: Memory): BusinessStore {
  return {
    create: async (creation) => createRecord(memory, ({ businesses }) => businesses, creation),

    async list(organizationId, _filter, limit, before) {
      const { businesses } = memory.organization(organizationId)
      return listRecords(businesses.values(), { limit, before, isWanted: () => true })
    },

    async get(organizationId, id) {
      return getRecord(memory.organization(organizationId).businesses.get(id))
    },

    async change(change) {
      return applyChange(memory, change, {
        find: ({ businesses }) => businesses.get(change.recordId),
        stateOf: () => '',
        represent: (business) => business,
        decide(stored, { businesses, clients, clientsOfBusinesses }) {
          const business = { ...stored, ...change.set }
          const client = clients.get(clientsOfBusinesses.get(business.id) ?? '')
          return {
            representation: business,
            write() {
              businesses.set(business.id, business)
              if (client) clients.set(client.id, { ...client, business })
            },
            events: change.events,
          }
        },
      })
    },
  }
}
