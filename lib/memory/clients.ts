import type { ClientStore } from '../clients.ts'
import { admitToPage } from './admission.ts'
import { commit, draft, judgeKey, keepOnce } from './creation.ts'
import type { Memory } from './memory.ts'

/** Clients and their businesses in memory. */
export function createClientStore(memory: Memory): ClientStore {
  return {
    async list(request, limit) {
      return admitToPage(memory, request, limit, (organization) => organization.clients)
    },

    async create(creation) {
      const client = draft(memory, creation, ({ id }) => id)
      const { organization, record } = client
      return (
        judgeKey(client) ??
        commit(client, () => {
          keepOnce(organization.businesses, record.business.id, record.business)
          keepOnce(organization.clients, record.id, record)
        })
      )
    },
  }
}
