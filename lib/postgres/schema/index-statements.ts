/** A statement in a migration marked `concurrent`. */
export interface IndexStatement {
  readonly kind: 'create' | 'drop'
  /** The index's schema-qualified name. */
  readonly index: string
  readonly text: string
}

// Comments and quoted parts are separate tokens because they may contain semicolons.
const TOKEN = /--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|;|[^-;'"]+|-/g
const CREATE =
  /^create\s+(?:unique\s+)?index\s+concurrently\s+([a-z_][a-z0-9_]*)\s+on\s+(?:only\s+)?([a-z_][a-z0-9_]*)\.[a-z_]/
const DROP = /^drop\s+index\s+concurrently\s+if\s+exists\s+([a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*)$/

/**
 * Parses a migration marked `concurrent`.
 *
 * @throws Error with the file name for statements other than `create index concurrently NAME on SCHEMA.TABLE …` and
 * `drop index concurrently if exists SCHEMA.NAME`
 */
export function readIndexStatements(name: string, text: string): readonly IndexStatement[] {
  const statements: string[] = ['']
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === ';') statements.push('')
    else if (!token.startsWith('--')) statements.push(`${statements.pop()}${token}`)
  }
  const texts = statements.map((statement) => statement.trim()).filter((statement) => statement !== '')
  return texts.map((statement) => readIndexStatement(name, statement))
}

function readIndexStatement(name: string, text: string): IndexStatement {
  const [, index, schema] = CREATE.exec(text) ?? []
  if (index !== undefined) return { kind: 'create', index: `${schema}.${index}`, text }
  const [, dropped] = DROP.exec(text) ?? []
  if (dropped !== undefined) return { kind: 'drop', index: dropped, text }
  throw new Error(
    `Cannot migrate: '${name}' is concurrent, and may only hold 'create index concurrently NAME on SCHEMA.TABLE …' ` +
      `and 'drop index concurrently if exists SCHEMA.NAME': found '${text.slice(0, 60)}'`,
  )
}
