import type { Clock } from '../base/ids.ts'

/** Records of one kind by id, along with when each was last changed. */
export interface SyncedRecords<T> extends Map<string, T> {
  /** Each record's last change, by id. */
  readonly changes: ReadonlyMap<string, RecordChange>
}

/** A record's last change. */
export interface RecordChange {
  /** Higher than all earlier change numbers. */
  readonly number: number
  /** Milliseconds on the store's clock. */
  readonly at: number
}

/** Counts the changes in a store. */
export interface ChangeCount {
  /** Identifies the store, since numbers from another store refer to different changes. */
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
