import type { RecordKind } from '../resources/records.ts'
import { inTransaction, transactionOn } from './connection/plain-transaction.ts'
import { createTransactionDatabase } from './connection/transaction.ts'
import { type RecordPage, readRecords } from './record-reader.ts'

/** Reads the next page of records of a kind by ID, from the beginning if `after` is `null`. */
export type ReadPage = (
  organizationId: string,
  kind: RecordKind,
  after: string | null,
  limit: number,
) => Promise<RecordPage>

/** Runs `work` with a reader for a single snapshot, so pages are consistent despite concurrent writes. */
export async function withSnapshot<Result>(
  url: string,
  work: (readPage: ReadPage) => Promise<Result>,
): Promise<Result> {
  return inTransaction(url, 'repeatable read read only', (sql) => {
    const database = createTransactionDatabase(transactionOn(sql), async (error) => error)
    return work((...page) => readRecords(database, ...page))
  })
}
