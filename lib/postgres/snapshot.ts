import type { RecordKind } from '../resources/records.ts'
import { openPlainPool } from './connection/plain-pool.ts'
import { createTransactionDatabase } from './connection/transaction.ts'
import { type RecordPage, readRecords } from './record-reader.ts'

/** Reads the next records of a kind, ordered by ID. If `after` is `null`, starts with the first one. */
export type ReadPage = (
  organizationId: string,
  kind: RecordKind,
  after: string | null,
  limit: number,
) => Promise<RecordPage>

/**
 * Runs `work` with a reader that uses a single snapshot, so the pages are consistent despite concurrent writes.
 *
 * @param url a connection string
 */
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
