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
      const names = left.map(({ name }) => name).join(', ')
      throw storeUnavailable(
        `Cannot move the organization because transactions stay open (${names}): end them, and try again`,
      )
    }
    await sleep(POLL_MS)
    const ids = new Set(left.map(({ id }) => id))
    // A session's transaction gets another id when it's prepared.
    const mayPrepare = left.some(({ isPrepared }) => !isPrepared)
    const running = await readTransactions(database)
    left = running.filter(({ id, isPrepared }) => ids.has(id) || (isPrepared && mayPrepare))
  }
}

/** Polling interval, in ms. */
const POLL_MS = 20

interface Transaction {
  readonly id: string
  /** For the operator, for example `session 4711`. */
  readonly name: string
  readonly isPrepared: boolean
}

/**
 * Reads the other transactions in this database. A transaction locks its virtual id before it takes its first snapshot,
 * and unlike snapshots, anyone can see locks. Vacuums have no user and don't read the map.
 */
function readTransactions(database: RecordDatabase): Promise<readonly Transaction[]> {
  return jsonFor(database, null, (sql) =>
    listOf(
      sql,
      sql`
        select l.virtualtransaction as id, 'session ' || l.pid as name, false as "isPrepared"
          from pg_locks l join pg_stat_activity a using (pid)
         where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.granted
           and a.datname = current_database() and a.usesysid is not null and l.pid <> pg_backend_pid()
        union all
        select p.transaction::text, 'prepared transaction ' || p.gid, true
          from pg_prepared_xacts p where p.database = current_database()`,
    ),
  )
}
