import type { Client, ClientStore } from '../resources/clients.ts'
import { admitToPage } from './admission.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, refuseOddNumbers, storeOnce } from './creation.ts'
import { getRecord, isOneOf, isValue, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of clients with their businesses, in memory. */
export function createClientStore(memory: Memory): ClientStore {
  return {
    async admitAndList(request, asked) {
      return admitToPage(
        memory,
        request,
        asked,
        ({ clients }) => clients,
        (client) => client,
      )
    },

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

    async list(organizationId, { statuses, businessId }, limit, before) {
      const { clients } = memory.organization(organizationId)
      return listRecords([...clients.values()].map(withUpdatedAt(clients)), {
        limit,
        before,
        isWanted: ({ status, business }) => isOneOf(statuses, status) && isValue(businessId, business.id),
      })
    },

    async get(organizationId, id) {
      const { clients } = memory.organization(organizationId)
      const stored = clients.get(id)
      return getRecord(stored && withUpdatedAt(clients)(stored))
    },
  }
}

/** Adds a client, unless a client with the same id exists. */
export function storeClient({ clients, clientsOfBusinesses }: Organization, client: Client): void {
  storeOnce(clients, client.id, client)
  storeOnce(clientsOfBusinesses, client.business.id, client.id)
}
