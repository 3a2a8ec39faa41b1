import type { RecordStore } from '../business-store.ts'
import { openPlainPool } from './connection/plain-pool.ts'
import type { PostgresStore } from './store.ts'

/** Runs `work` in a transaction that is always rolled back, as a dry run with an accurate result. */
export async function rehearse<Result>(
  url: string,
  store: PostgresStore,
  work: (records: RecordStore) => Promise<Result>,
): Promise<Result> {
  const sql = await openPlainPool(url)
  const rollback = new Error('The rehearsal is over')
  const done: Result[] = []
  try {
    await sql.begin(async (tx) => {
      done.push(await work(store.using(tx)))
      throw rollback
    })
  } catch (error) {
    if (error !== rollback) throw error
  } finally {
    await sql.end({ timeout: 1 })
  }
  return done[0] as Result
}
