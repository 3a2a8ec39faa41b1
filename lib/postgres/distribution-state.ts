import type { RecordDatabase } from './connection/database.ts'

/** Returns whether the tables are distributed over the nodes of a cluster. */
export type ReadDistribution = () => Promise<boolean>

/**
 * Creates a reader that asks the database once: a process that was started before the tables were distributed must be started again.
 */
export function createDistributionReader(database: RecordDatabase): ReadDistribution {
  let answer: Promise<boolean> | undefined

  async function ask(): Promise<boolean> {
    const [isDistributed] = await database.rowFor(
      null,
      (sql, answerTag) => sql`select business_api.is_distributed()::text, ${answerTag}`,
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
