import type { Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { sleep } from '../../base/time.ts'

/** Waits for all transactions that may have read an earlier map. Throws `store_unavailable` after `holdMs`. */
export async function awaitOthers(sql: Sql, holdMs: number): Promise<void> {
  const [now] = await sql<{ bound: string }[]>`
    select pg_snapshot_xmax(pg_current_snapshot())::text as bound`
  const bound = now?.bound ?? '0'
  for (const endsAt = performance.now() + holdMs; ; await sleep(POLL_MS)) {
    // Any earlier snapshot has a lower xmin. Vacuums don't count, since they have no user and don't read the map. Other
    // users' snapshots can't be seen without privileges, but the ids of transactions and their locks can.
    const [state] = await sql<{ isOver: boolean; pids: string | null }[]>`
      with other as (
        select pid from pg_stat_activity
        where datname = current_database() and usesysid is not null and pid <> pg_backend_pid() and (
          age(backend_xmin) > age(${bound}::text::xid8::xid) or age(backend_xid) > age(${bound}::text::xid8::xid)
        )
      ), running as (
        select x::xid as xid from pg_snapshot_xip(pg_current_snapshot()) as x where x < ${bound}::text::xid8
      ), elsewhere as (
        select transactionid from pg_locks join pg_stat_activity using (pid)
        where locktype = 'transactionid' and granted and mode = 'ExclusiveLock' and datname <> current_database()
      )
      select
        not exists (select from other)
          and not exists (select from running where xid not in (select transactionid from elsewhere)) as "isOver",
        (select string_agg(pid::text, ', ') from other) as pids`
    if (state?.isOver) return
    if (performance.now() > endsAt) {
      const who = state?.pids ? `the sessions ${state.pids}` : 'prepared transactions or those of other users'
      throw storeUnavailable(`Cannot move the organization because ${who} stay open: end them, and try again`)
    }
  }
}

/** Polling interval, in ms. */
const POLL_MS = 20
