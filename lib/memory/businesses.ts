import type { BusinessStore } from '../resources/businesses.ts'
import { commit, draft, judgeKey, keepOnce } from './creation.ts'
import type { Memory } from './state.ts'

/** Creates the slice of businesses without a client, in memory. */
export function createBusinessRecordStore(memory: Memory): BusinessStore {
  return {
    async create(creation) {
      const business = draft(memory, creation, ({ id }) => id)
      const { organization, record } = business
      return (
        judgeKey(business) ?? commit(business, () => keepOnce(organization.businesses, record.id, record))
      )
    },
  }
}
