import type { RecordKind } from '../resources/records.ts'
import { openPlainPool } from './connection/plain-pool.ts'
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
  const sql = await openPlainPool(url)
  const done: Result[] = []
  try {
    await sql.begin('isolation level repeatable read read only', async (tx) => {
      const database = createTransactionDatabase(tx, async (error) => error)
      done.push(await work((...page) => readRecords(database, ...page)))
    })
  } finally {
    await sql.end({ timeout: 1 })
  }
  return done[0] as Result
}
