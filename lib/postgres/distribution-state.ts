import type { Database } from './connection/database.ts'

/** Returns whether the tables are distributed over the nodes of a cluster. */
export type ReadDistribution = () => Promise<boolean>

/**
 * Creates a reader that asks the database once: a process that was started before the tables were distributed must be started again.
 */
export function createDistributionReader(database: Pick<Database, 'row'>): ReadDistribution {
  let answer: Promise<boolean> | undefined

  async function ask(): Promise<boolean> {
    const [catalogue] = await database.row(
      (sql, answerTag) =>
        sql`select pg_catalog.to_regclass('pg_catalog.pg_dist_partition')::text, ${answerTag}`,
    )
    // PostgreSQL refuses a statement that names a missing table.
    if (catalogue === null) return false
    const [isDistributed] = await database.row(
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

  return () => {
    answer ??= ask().catch((error: unknown) => {
      answer = undefined
      throw error
    })
    return answer
  }
}
