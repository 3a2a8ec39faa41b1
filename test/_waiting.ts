import type { Sql } from 'postgres'

/** Counts the sessions of a test's database that wait for a lock, on all nodes if the database is on a cluster. */
export async function countWaiting(sql: Pick<Sql, 'unsafe'>): Promise<number> {
  const waiting =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  const [found] = await sql.unsafe(
    process.env.TEST_ON_CITUS === '1'
      ? `select sum(result::int)::int as count from run_command_on_all_nodes($$${waiting}$$)`
      : `select count::int from (${waiting}) as found`,
  )
  return Number(found?.count)
}
