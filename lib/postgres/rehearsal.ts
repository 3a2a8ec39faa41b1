import type { RecordStore } from '../business-store.ts'
import { inTransaction, transactionOn } from './connection/plain-transaction.ts'
import type { PostgresStore } from './store.ts'

/** Runs `work` in a transaction that is always rolled back, as a dry run with an accurate result. */
export async function rehearse<Result>(
  url: string,
  store: PostgresStore,
  work: (records: RecordStore) => Promise<Result>,
): Promise<Result> {
  const rollback = new Error('The rehearsal is over')
  const done: Result[] = []
  await inTransaction(url, 'read committed', async (sql) => {
    done.push(await work(store.using(transactionOn(sql))))
    throw rollback
  }).catch((error: unknown) => {
    if (error !== rollback) throw error
  })
  return done[0] as Result
}
