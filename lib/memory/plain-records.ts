import type { PlainRecord, PlainStore } from '../resources/record-reads.ts'
import { PLAIN_RESOURCES, type PlainSlices } from '../resources/records.ts'
import { isOneOf } from './record-list.ts'
import { changeRecord, createRecord, readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'
import type { SyncedRecords } from './synced-records.ts'

/** Creates the in-memory slices for plain records. */
export function createPlainStores(memory: Memory): PlainSlices {
  const slices = Object.entries(PLAIN_RESOURCES).map(([resource, { kind }]) => {
    const records = (of: Organization): SyncedRecords<PlainRecord> => Reflect.get(of.records, kind)
    const store: PlainStore<PlainRecord> = {
      ...readSlice(memory, {
        records,
        shown: (record) => record,
        stored: (record) => record,
        isWanted: ({ status }, { statuses }) => isOneOf(statuses, status),
      }),
      create: async (creation) => createRecord(memory, records, creation),
      change: async (change) => changeRecord(memory, records, change),
    }
    return [resource, store]
  })
  return Object.fromEntries(slices)
}
