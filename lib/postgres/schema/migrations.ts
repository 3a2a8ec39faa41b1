import { BusinessApiError, SCHEMA_TOO_NEW } from '../../base/errors.ts'
import { readIndexStatements } from './index-statements.ts'
import { type MigrationTexts, readMigrationTexts } from './migration-texts.ts'

/** A migration as the database remembers it. */
export interface AppliedMigration {
  /** From 1, without gaps. */
  readonly id: number
  /** Of its file: `0001-businesses.sql`. */
  readonly name: string
  /** Whether older versions of this package cannot run once it is applied. */
  readonly breaking: boolean
}

/** A migration as the package has it. */
export interface Migration extends AppliedMigration {
  /** True for statements that run outside a transaction: see concurrent-indexes.ts. */
  readonly isConcurrent: boolean
  readonly text: string
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/

/** "business" in ASCII: a key that no other use of advisory locks in the host's database is likely to have. */
export const MIGRATION_LOCK_KEY = '7094703731946386291'

/**
 * Reads migrations, in order.
 *
 * @param texts default those of this package
 * @throws Error naming the file that is not named or marked as a migration is
 */
export async function readMigrations(texts: MigrationTexts = readMigrationTexts()): Promise<Migration[]> {
  const files = Object.entries(texts).sort(([name], [other]) => (name < other ? -1 : 1))
  return files.map(([name, text], index) => readMigration(name, text, index + 1))
}

function readMigration(name: string, text: string, expectedId: number): Migration {
  const digits = FILE_NAME.exec(name)?.[1]
  if (digits === undefined) throw new Error(`Cannot migrate: '${name}' is not named like 0001-name.sql`)
  const id = Number(digits)
  if (id !== expectedId) {
    const expected = String(expectedId).padStart(4, '0')
    throw new Error(
      `Cannot migrate: expected number ${expected} but found '${name}'; a number is missing or double`,
    )
  }
  const marks = readMarks(name, text)
  const isConcurrent = marks.includes('concurrent')
  if (isConcurrent) readIndexStatements(name, text)
  return { id, name, breaking: marks.includes('breaking'), isConcurrent, text }
}

/** The words after `--!` in the first line. */
function readMarks(name: string, text: string): readonly string[] {
  const [, directive = ''] = /^--!\s*(.*?)\s*(?:\n|$)/.exec(text) ?? []
  const marks = directive.split(/\s+/).filter((mark) => mark !== '')
  // A misspelt mark would be found out only when old processes fail.
  const unknown = marks.find((mark) => mark !== 'breaking' && mark !== 'concurrent')
  if (unknown !== undefined) {
    throw new Error(`Cannot migrate: '${name}' begins with the unknown mark '--! ${unknown}'`)
  }
  return marks
}

// --- What a database holds, beside what the package has ---

/** A number that names one migration in the database and another one in this package. */
export interface RenamedMigration {
  readonly id: number
  /** File name of the migration that the database holds. */
  readonly applied: string
  /** File name of the migration that this package has. */
  readonly known: string
}

/** How far a database has been migrated. */
export interface SchemaState {
  /** Number of the newest migration it holds; 0: none. */
  readonly current: number
  /** Number of the newest migration of this package. */
  readonly latest: number
  /** Of this package, in order. */
  readonly pending: readonly Migration[]
  /** Applied by a newer version of the package, in order. */
  readonly newer: readonly AppliedMigration[]
  /** Those that a version with other numbers has applied, in order: the schema is none that this version knows. */
  readonly renamed: readonly RenamedMigration[]
}

/** Compares the migrations that a database holds with those of the package. */
export function compareMigrations(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): SchemaState {
  const names = new Map(applied.map(({ id, name }) => [id, name]))
  return {
    current: Math.max(0, ...names.keys()),
    latest: migrations.length,
    pending: migrations.filter(({ id }) => !names.has(id)),
    newer: applied.filter(({ id }) => id > migrations.length),
    renamed: migrations.flatMap(({ id, name: known }) => {
      const name = names.get(id) ?? known
      return name === known ? [] : [{ id, applied: name, known }]
    }),
  }
}

/**
 * Refuses a database that migrating would not make usable.
 *
 * @throws `BusinessApiError` with code `schema_too_new` when a newer version has applied a breaking migration
 * @throws Error naming the migrations of a gap (see {@link gapOf}), or one that the database holds under another name
 */
export function refuseUnusable(state: SchemaState): void {
  // First, because a database with other numbers cannot be judged by them.
  const [renamed] = state.renamed
  if (renamed) {
    throw new Error(`Cannot use this database: ${describeRenamed(renamed)}; ${RENAMED_ADVICE}`)
  }
  const breaking = state.newer.find((migration) => migration.breaking)
  if (breaking) {
    throw new BusinessApiError(
      SCHEMA_TOO_NEW,
      `Cannot use this database: it holds the breaking migration '${breaking.name}', ` +
        `and this version of business-api-kit knows migrations up to ${state.latest}; install a newer one`,
    )
  }
  const gap = gapOf(state)
  if (gap.length > 0) throw new Error(`Cannot use this database: ${describeGap(gap)}`)
}

/** What to do with a database whose migrations are numbered differently. */
export const RENAMED_ADVICE =
  'use the version of business-api-kit that migrated it, or migrate an empty database'

/** Says which migration the database holds, and which one the package has instead. */
export function describeRenamed({ id, applied, known }: RenamedMigration): string {
  return `migration ${id} is '${applied}' there and '${known}' here`
}

/**
 * Names the migrations that the database does not hold although it holds later ones. Applied in order, all or nothing,
 * migrations leave no gap: the rows were lost, or the schema comes from somewhere else. To apply them again would fail
 * halfway at best.
 */
export function gapOf({ pending, current }: SchemaState): readonly string[] {
  return pending.filter(({ id }) => id < current).map(({ name }) => name)
}

/** @param names of the migrations that are missing between others */
export function describeGap(names: readonly string[]): string {
  const rows = names.length === 1 ? 'has no row' : 'have no rows'
  return `${names.join(', ')} ${rows} in business_api.migrations, though later migrations are applied`
}

// --- Statements ---

/** Where the database remembers what has been applied. */
export const MIGRATIONS_TABLE = `create table if not exists business_api.migrations (
  id integer not null,
  name text not null,
  breaking boolean not null,
  applied_at timestamptz not null default now(),
  constraint migrations_pkey primary key (id)
)`

/** Remembers a migration. Every value has been checked to hold only digits, lower-case letters and hyphens. */
export function recordStatement({ id, name, breaking }: AppliedMigration): string {
  return `insert into business_api.migrations (id, name, breaking) values (${id}, '${name}', ${breaking})`
}

/**
 * Migrations as one script for psql, for those who may not let a program change their schema: it does what `migrate`
 * does, and `migrate` finds nothing to do after it. A statement that fails ends the script (with `ON_ERROR_STOP`); the
 * migrations before it are applied then.
 *
 * @param isFirst whether the database holds no migration yet
 */
export function writeMigrationScript(migrations: readonly Migration[], isFirst: boolean): string {
  const parts = migrations.map((migration, index) => {
    const text = migration.text.trimEnd()
    const table = `create schema if not exists business_api;\n${MIGRATIONS_TABLE};\n\n`
    const begin = `${BEGIN}\n\n${isFirst && index === 0 ? table : ''}${writeGuard(migration)}`
    const body = migration.isConcurrent ? `${text}\n\n${begin}` : `${begin}\n\n${text}`
    return `-- ${migration.name}\n\n${body}\n\n${recordStatement(migration)};\ncommit;`
  })
  return `${parts.join('\n\n')}\n`
}

const BEGIN = `begin;
set local statement_timeout = 0;
set local lock_timeout = '1s';
set local search_path = '';
do $$ begin perform pg_advisory_xact_lock(${MIGRATION_LOCK_KEY}); end $$;`

/** Without `ON_ERROR_STOP`, psql goes on after a migration that has failed. */
function writeGuard({ id, name }: Migration): string {
  return `do $$ begin
  if (select coalesce(max(id), 0) from business_api.migrations) <> ${id - 1} then
    raise exception 'Cannot apply ${name} because the database does not hold the migrations up to ${id - 1}';
  end if;
end $$;`
}
