import {
  type BuildStatement,
  type BuildTagged,
  type ByteRow,
  type Database,
  type RecordDatabase,
  type StatementWait,
  toText,
  withTagColumn,
} from '../connection/database.ts'
import { renderStatement, textTemplate } from '../connection/statement-text.ts'
import type { Share } from '../connection/turns.ts'
import type { ReadDistribution } from './state.ts'

// The way of a statement to the node of an organization, on a distributed database.

/**
 * The call by which a node carries out a statement. The call stands alone in `from`, with constants as arguments: only such a call is
 * sent to the node as a whole.
 */
const askShard = (name: string): string => `
  select answer, $4::text as answer_tag from business_api.${name}($1::text, $2::text, $3::text) as answer`

/**
 * Routes the statements of an organization to the node of the organization if the database is distributed. A statement takes one round
 * trip, because the node reads and writes only the node's own tables. On a single PostgreSQL every statement is sent unchanged.
 */
export function routeToShards(database: Database, isDistributed: ReadDistribution): Database {
  return { ...database, ...route(database, isDistributed, askShard('ask_shard')) }
}

/** Routes the statements in a transaction of the host, like {@link routeToShards}. @param isDistributed asks on another connection */
export function routeTransaction(database: RecordDatabase, isDistributed: ReadDistribution): RecordDatabase {
  return { ...database, ...route(database, isDistributed, askShard('ask_shard_in_transaction')) }
}

function route(
  database: RecordDatabase,
  isDistributed: ReadDistribution,
  ask: string,
): Pick<RecordDatabase, 'bytesFor' | 'rowFor'> {
  let isOneServer = false

  async function bytesFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<ByteRow> {
    if (typeof share !== 'string') return database.bytesFor(share, build, wait)
    isOneServer = !(await isDistributed(share))
    if (isOneServer) return database.bytesFor(share, build, wait)
    const [answer] = await database.bytesFor(
      share,
      (sql, answerTag) => {
        const { text, parameters } = renderStatement(build(textTemplate, answerTag))
        return sql.unsafe(ask, [share, text, JSON.stringify(parameters), answerTag], { prepare: true })
      },
      wait,
    )
    const columns = JSON.parse(answer?.toString('utf8') ?? '[]') as (string | null)[]
    return columns.map((column) => (column === null ? null : Buffer.from(column)))
  }

  return {
    bytesFor: (share: Share | null, build: BuildTagged, wait?: StatementWait) =>
      isOneServer ? database.bytesFor(share, build, wait) : bytesFor(share, build, wait),
    rowFor: async (share: Share | null, build: BuildStatement, wait?: StatementWait) =>
      isOneServer
        ? database.rowFor(share, build, wait)
        : toText(await bytesFor(share, withTagColumn(build), wait)),
  }
}
