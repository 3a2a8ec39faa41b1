import type { RecordDatabase } from '../connection/database.ts'
import type { Share } from '../connection/turns.ts'

/**
 * Returns whether the tables are distributed over the nodes of a cluster.
 *
 * @param share the organization of the statement that waits for the answer, so that the question waits no longer for other organizations
 *   than the statement does. Default null: no single organization
 */
export type ReadDistribution = (share?: Share | null) => Promise<boolean>

/**
 * Creates a reader that asks the database once: a process that was started before the tables were distributed must be started again.
 */
export function createDistributionReader(database: Pick<RecordDatabase, 'rowFor'>): ReadDistribution {
  let answer: Promise<boolean> | undefined

  async function ask(share: Share | null): Promise<boolean> {
    const [catalogue] = await database.rowFor(
      share,
      (sql, answerTag) =>
        sql`select pg_catalog.to_regclass('pg_catalog.pg_dist_partition')::text, ${answerTag}`,
    )
    // PostgreSQL refuses a statement that names a missing table.
    if (catalogue === null) return false
    const [isDistributed] = await database.rowFor(
      share,
      (sql, answerTag) => sql`
        select
          exists (
            select 1 from pg_catalog.pg_dist_partition
            where logicalrelid = pg_catalog.to_regclass('business_api.open_deliveries')
          )::text,
          ${answerTag}`,
    )
    return isDistributed === 'true'
  }

  return (share = null) => {
    answer ??= ask(share).catch((error: unknown) => {
      answer = undefined
      throw error
    })
    return answer
  }
}
