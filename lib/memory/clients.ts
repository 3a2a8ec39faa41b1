import type { Client, ClientFilter, ClientStore } from '../resources/clients.ts'
import type { RecordRow } from '../resources/records.ts'
import { commit, draft, judgeCreation, storeOnce } from './creation.ts'
import { isOneOf, isValue } from './record-list.ts'
import { changeRecord, readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

type ClientRow = RecordRow<'client'>

const records = ({ records: { client } }: Organization) => client

/** Creates the in-memory slice for clients and their businesses. */
export function createClientStore(memory: Memory): ClientStore {
  return {
    ...readSlice(memory, {
      records,
      shown: showClient,
      stored: showClient,
      isWanted: ({ status, business }, { statuses, businessId }: ClientFilter) =>
        isOneOf(statuses, status) && isValue(businessId, business.id),
    }),

    async create(creation) {
      const client = draft(memory, creation)
      const { business, ...row } = client.record
      return (
        judgeCreation(client) ??
        commit(client, () => {
          const { records } = client.organization
          storeOnce(records.business, business.id, business)
          storeOnce(records.client, row.id, { ...row, businessId: business.id })
        })
      )
    },

    change: async (change) => changeRecord(memory, records, change, showClient),
  }
}

/** Returns a client, including the business, in the API's format. */
export function showClient({ businessId, ...client }: ClientRow, { records }: Organization): Client {
  const business = records.business.get(businessId)
  if (!business) throw new TypeError('Cannot show a client without a business')
  return { ...client, business }
}

/** Returns the client that a business has become. */
export function clientOf({ records }: Organization, businessId: string): ClientRow | undefined {
  return [...records.client.values()].find((client) => client.businessId === businessId)
}
