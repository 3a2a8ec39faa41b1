import { type BuildTagged, type Database, withTagColumn } from '../../lib/postgres/connection/database.ts'
import {
  renderStatement,
  type StatementText,
  textTemplate,
} from '../../lib/postgres/connection/statement-text.ts'
import type { Share } from '../../lib/postgres/connection/turns.ts'

/** A statement, with the organization whose share it took. */
export interface RecordedStatement extends StatementText {
  readonly share: Share | null
}

/** A database that remembers the statements of a single row that go through it: a distributed database gets no others. */
export interface RecordingDatabase extends Database {
  /** The statements by text, each with the values of the first sending. */
  readonly statements: ReadonlyMap<string, RecordedStatement>
}

/** Records the statements of a store: see `createStoreOn`. */
export function recordStatements(database: Database): RecordingDatabase {
  const statements = new Map<string, RecordedStatement>()

  // After the answer, because a claim counts how often its statement is built.
  async function recorded<Row>(share: Share | null, sent: Promise<Row>, build: BuildTagged): Promise<Row> {
    try {
      return await sent
    } finally {
      const statement = renderStatement(build(textTemplate, '0'))
      if (!statements.has(statement.text)) statements.set(statement.text, { ...statement, share })
    }
  }

  return {
    ...database,
    statements,
    bytesFor: (share, build, wait) => recorded(share, database.bytesFor(share, build, wait), build),
    rowFor: (share, build, wait) =>
      recorded(share, database.rowFor(share, build, wait), withTagColumn(build)),
    row: (build) => recorded(null, database.row(build), withTagColumn(build)),
  }
}
