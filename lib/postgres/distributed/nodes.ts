import { storeUnavailable } from '../../base/errors.ts'
import type { Database } from '../connection/database.ts'

/** The answers of the nodes that answered, and the time of the node that was asked, in milliseconds since 1970. */
export interface NodeAnswers<Answer> {
  readonly answers: readonly Answer[]
  readonly time: number
}

/**
 * Calls a function of the schema on every node of the cluster: each answers for its own rows. A node that cannot be reached is left
 * out.
 *
 * @param name the function, which returns JSON text
 * @param parameters the arguments
 * @throws `BusinessApiError` with code `store_unavailable` if no node answers
 */
export type LookAtNodes = <Answer>(
  name: string,
  parameters: readonly (string | number | null)[],
) => Promise<NodeAnswers<Answer>>

/** Creates the look at the nodes of a Citus cluster. */
export function createLookAtNodes(database: Database): LookAtNodes {
  return async <Answer>(name: string, parameters: readonly (string | number | null)[]) => {
    const command = `select business_api.${name}(${parameters.map(toLiteral).join(', ')})`
    const [nodes, time] = await database.row(
      (sql, answerTag) => sql`
        select
          (select pg_catalog.json_agg(pg_catalog.json_build_array(success, result))
             from pg_catalog.run_command_on_all_nodes(${command}::text, give_warning_for_connection_errors => true))::text,
          (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::text as time,
          ${answerTag}`,
    )
    const found = JSON.parse(nodes ?? '[]') as (readonly [success: boolean, result: string])[]
    const answered = found.filter(([isAnswered]) => isAnswered)
    if (answered.length === 0) {
      throw storeUnavailable(
        'Cannot reach any node of the cluster',
        new Error(found.map(([, result]) => result).join('\n')),
      )
    }
    return { answers: answered.map(([, result]) => JSON.parse(result) as Answer), time: Number(time) }
  }
}

/** Writes a value as a literal: the command of another node takes no parameters. */
function toLiteral(value: string | number | null): string {
  if (value === null) return 'null'
  if (typeof value === 'number') return String(value)
  return value.includes('\\')
    ? `E'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
    : `'${value.replaceAll("'", "''")}'`
}
