import { type BuildTagged, type Database, withTagColumn } from '../../lib/postgres/connection/database.ts'
import {
  renderStatement,
  type StatementText,
  textTemplate,
} from '../../lib/postgres/connection/statement-text.ts'

/** A database that remembers the statements that go through it. */
export interface RecordingDatabase extends Database {
  /** The statements by text, each with the values of the first sending. */
  readonly statements: ReadonlyMap<string, StatementText>
}

/** Records the statements of a store: see `createStoreOn`. */
export function recordStatements(database: Database): RecordingDatabase {
  const statements = new Map<string, StatementText>()

  // After the answer, because a claim counts how often its statement is built.
  async function recorded<Row>(sent: Promise<Row>, build: BuildTagged): Promise<Row> {
    try {
      return await sent
    } finally {
      const statement = renderStatement(build(textTemplate, '0'))
      if (!statements.has(statement.text)) statements.set(statement.text, statement)
    }
  }

  return {
    ...database,
    statements,
    bytesFor: (share, build, wait) => recorded(database.bytesFor(share, build, wait), build),
    rowFor: (share, build, wait) => recorded(database.rowFor(share, build, wait), withTagColumn(build)),
    row: (build) => recorded(database.row(build), withTagColumn(build)),
  }
}
