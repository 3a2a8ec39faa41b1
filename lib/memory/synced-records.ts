import type { Clock } from '../base/ids.ts'

/** Records of a kind by id, and when each of them last changed. */
export interface SyncedRecords<T> extends Map<string, T> {
  /** The last change of each record by id. */
  readonly changes: ReadonlyMap<string, RecordChange>
}

/** The last change of a record. */
export interface RecordChange {
  /** Higher than the numbers of all earlier changes. */
  readonly number: number
  /** Milliseconds of the store's clock. */
  readonly at: number
}

/** Counts the changes in a store. */
export interface ChangeCount {
  /** Identifies the store, because numbers from another store refer to different changes. */
  readonly storeId: string
  last: number
}

/** Creates a collection that numbers all changes. */
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
