import type { PlainRecord, PlainStore } from '../resources/record-reads.ts'
import { PLAIN_TABLES, type PlainSlices } from '../resources/records.ts'
import { isOneOf } from './record-list.ts'
import { changeRecord, createRecord, readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'
import type { SyncedRecords } from './synced-records.ts'

/** Creates the slices of plain records in memory. */
export function createPlainStores(memory: Memory): PlainSlices {
  const slices = Object.entries(PLAIN_TABLES).map(([resource, { kind }]) => [
    resource,
    createPlainStore(memory, ({ records }) => Reflect.get(records, kind)),
  ])
  return Object.fromEntries(slices)
}

function createPlainStore(
  memory: Memory,
  records: (organization: Organization) => SyncedRecords<PlainRecord>,
): PlainStore<PlainRecord> {
  return {
    ...readSlice(memory, {
      records,
      shown: (record) => record,
      stored: (record) => record,
      isWanted: ({ status }, { statuses }) => isOneOf(statuses, status),
    }),
    create: async (creation) => createRecord(memory, records, creation),
    change: async (change) => changeRecord(memory, records, change),
  }
}
