import type { Client, ClientFilter, ClientStore } from '../resources/clients.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, refuseOddNumbers, storeOnce } from './creation.ts'
import { isOneOf, isValue } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of clients with their businesses, in memory. */
export function createClientStore(memory: Memory): ClientStore {
  return {
    ...readSlice(memory, {
      records: ({ clients }) => clients,
      shown: (client) => client,
      stored: (client) => client,
      isWanted: ({ status, business }, { statuses, businessId }: ClientFilter) =>
        isOneOf(statuses, status) && isValue(businessId, business.id),
    }),

    async create(creation) {
      const client = draft(memory, creation, ({ id }) => id)
      const { organization, record } = client
      return (
        judgeKey(client) ??
        commit(client, () => {
          storeOnce(organization.businesses, record.business.id, record.business)
          storeClient(organization, record)
        })
      )
    },

    async change(change) {
      refuseOddNumbers(change.set)
      return applyChange(memory, change, {
        find: ({ clients }) => clients.get(change.recordId),
        stateOf: ({ status }) => status,
        represent: (client) => client,
        decide(client, { clients }) {
          const changed = { ...client, ...change.set }
          return {
            representation: changed,
            write: () => clients.set(changed.id, changed),
            events: change.events,
          }
        },
      })
    },
  }
}

/** Adds a client, unless a client with the same id exists. */
export function storeClient({ clients, clientsOfBusinesses }: Organization, client: Client): void {
  storeOnce(clients, client.id, client)
  storeOnce(clientsOfBusinesses, client.business.id, client.id)
}
