import type { BusinessStore } from '../resources/businesses.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, storeOnce } from './creation.ts'
import { getRecord, listRecords } from './record-list.ts'
import type { Memory } from './state.ts'

/** Creates the slice of businesses in memory. */
export function createBusinessRecordStore(memory: Memory): BusinessStore {
  return {
    async create(creation) {
      const business = draft(memory, creation, ({ id }) => id)
      const { organization, record } = business
      return (
        judgeKey(business) ?? commit(business, () => storeOnce(organization.businesses, record.id, record))
      )
    },

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
