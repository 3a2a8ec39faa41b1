import type { Updated } from '../resources/record-reads.ts'
import { toTimestamp } from '../writes/write-context.ts'
import type { SyncedRecords } from './synced-records.ts'

/** Selects the records to list. */
export interface ListOf<Stored> {
  readonly limit: number
  /** The previous page's last id; null: from the first. */
  readonly before: string | null
  isWanted(record: Stored): boolean
  /** Sorts records, the greatest key first. Default by id. */
  keyOf?(record: Stored): string
}

/** Lists records, newest first, as copies. */
export function listRecords<Stored extends { readonly id: string }>(
  records: Iterable<Stored>,
  { limit, before, isWanted, keyOf = ({ id }) => id }: ListOf<Stored>,
): readonly Stored[] {
  const all = [...records]
  const last = all.find(({ id }) => id === before)
  const end = last === undefined ? before : keyOf(last)
  return all
    .filter((record) => isWanted(record) && (end === null || keyOf(record) < end))
    .sort((one, other) => (keyOf(one) < keyOf(other) ? 1 : -1))
    .slice(0, limit)
    .map((record) => structuredClone(record))
}

/** Reads a record, as a copy. */
export function getRecord<Stored>(record: Stored | undefined): Stored | null {
  return structuredClone(record) ?? null
}

/** Returns a function that adds the latest change's time to a record's representation. */
export function withUpdatedAt({
  changes,
}: Pick<SyncedRecords<unknown>, 'changes'>): <Shown extends { readonly id: string }>(
  record: Shown,
) => Shown & Updated {
  return (record) => ({ ...record, updatedAt: toTimestamp(changes.get(record.id)?.at ?? 0) })
}

/** Tells whether a filter lets a value through; an absent filter lets everything through. */
export function isOneOf(values: readonly string[] | undefined, value: string): boolean {
  return values === undefined || values.includes(value)
}

/** Tells whether a filter lets a value through; an absent filter lets everything through. */
export function isValue(wanted: string | undefined, value: string): boolean {
  return wanted === undefined || wanted === value
}
