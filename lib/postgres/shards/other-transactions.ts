import { storeUnavailable } from '../../base/errors.ts'
import { sleep } from '../../base/time.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { jsonFor, listOf } from '../statements/statement.ts'

/** Waits for all transactions that may have read an earlier map. Throws `store_unavailable` after `holdMs`. */
export async function awaitOthers(database: RecordDatabase, holdMs: number): Promise<void> {
  const endsAt = performance.now() + holdMs
  let left = await readTransactions(database)
  while (left.length > 0) {
    if (performance.now() > endsAt) {
      const sessions = left.map(({ session }) => session).join(', ')
      throw storeUnavailable(
        `Cannot move the organization because the sessions ${sessions} stay open: end them, and try again`,
      )
    }
    await sleep(POLL_MS)
    const running = new Set((await readTransactions(database)).map(({ id }) => id))
    left = left.filter(({ id }) => running.has(id))
  }
}

/** Polling interval, in ms. */
const POLL_MS = 20

/**
 * Reads the other transactions in this database. A transaction locks its virtual id before it takes its first snapshot,
 * and unlike snapshots, anyone can see locks. Vacuums have no user and don't read the map.
 */
function readTransactions(
  database: RecordDatabase,
): Promise<readonly { readonly id: string; readonly session: string }[]> {
  return jsonFor(database, null, (sql) =>
    listOf(
      sql,
      sql`
        select l.virtualtransaction as id, l.pid::text as session
          from pg_locks l join pg_stat_activity a using (pid)
         where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.granted
           and a.datname = current_database() and a.usesysid is not null and l.pid <> pg_backend_pid()
        union all
        select p.transaction::text, 'of prepared transaction ' || p.gid
          from pg_prepared_xacts p where p.database = current_database()`,
    ),
  )
}
