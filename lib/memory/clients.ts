import type { Business } from '../resources/businesses.ts'
import type { Client, ClientFilter, ClientStore } from '../resources/clients.ts'
import { commit, draft, judgeCreation, storeOnce } from './creation.ts'
import { isOneOf, isValue } from './record-list.ts'
import { changeRecord, readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

const records = ({ clients }: Organization) => clients

/** Creates the slice of clients with their businesses, in memory. */
export function createClientStore(memory: Memory): ClientStore {
  return {
    ...readSlice(memory, {
      records,
      shown: (client) => client,
      stored: (client) => client,
      isWanted: ({ status, business }, { statuses, businessId }: ClientFilter) =>
        isOneOf(statuses, status) && isValue(businessId, business.id),
    }),

    async create(creation) {
      const client = draft(memory, creation, ({ id }) => id)
      const { organization, record } = client
      return (
        judgeCreation(client) ??
        commit(client, () => {
          storeOnce(organization.businesses, record.business.id, record.business)
          storeClient(organization, record)
        })
      )
    },

    change: async (change) => changeRecord(memory, records, ({ status }) => status, change),
  }
}

/** Gives a business that a record names. */
export function ofBusiness({ businesses }: Organization, businessId: string): Business {
  const business = businesses.get(businessId)
  if (!business) throw new TypeError('Cannot make a client without a business')
  return business
}

/** Adds a client, unless a client with the same id exists. */
export function storeClient({ clients, clientsOfBusinesses }: Organization, client: Client): void {
  storeOnce(clients, client.id, client)
  storeOnce(clientsOfBusinesses, client.business.id, client.id)
}
