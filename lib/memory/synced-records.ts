import type { Clock } from '../base/ids.ts'

/** Records of a kind by id, with the latest change of each. */
export interface SyncedRecords<T> extends Map<string, T> {
  /** By the record's id. */
  readonly changes: ReadonlyMap<string, RecordChange>
}

/** The latest change of a record. */
export interface RecordChange {
  /** Greater than the number of every earlier change. */
  readonly number: number
  /** Milliseconds by the store's clock. */
  readonly at: number
}

/** Counts the changes of a store. */
export interface ChangeCount {
  /** Identifies the store, because another store's numbers mean other changes. */
  readonly storeId: string
  last: number
}

/** Creates a collection that numbers every change. */
export function createSyncedRecords<T>(count: ChangeCount, clock: Clock): SyncedRecords<T> {
  const changes = new Map<string, RecordChange>()
  const records = new Map<string, T>()
  const setRecord = records.set.bind(records)
  return Object.assign(records, {
    changes,
    set(id: string, record: T) {
      count.last++
      changes.set(id, { number: count.last, at: clock() })
      setRecord(id, record)
      return records
    },
  })
}
