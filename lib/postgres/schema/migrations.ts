import { BusinessApiError, SCHEMA_TOO_NEW } from '../../base/errors.ts'
import { readIndexStatements } from './index-statements.ts'
import { type MigrationTexts, readMigrationTexts } from './migration-texts.ts'

/** An applied migration in the database's table of migrations. */
export interface AppliedMigration {
  /** Number of the migration, from 1 without gaps. */
  readonly id: number
  /** Name of the file: `0001-businesses.sql`. */
  readonly name: string
  /** True if versions of this package without this migration cannot run against the migrated schema. */
  readonly breaking: boolean
}

/** A migration of the package. */
export interface Migration extends AppliedMigration {
  /** True for statements that run outside a transaction: see concurrent-indexes.ts. */
  readonly isConcurrent: boolean
  readonly text: string
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/

/** Key of the advisory lock: "business" in ASCII, an unlikely key for other uses of advisory locks in the host's database. */
export const MIGRATION_LOCK_KEY = '7094703731946386291'

/**
 * Reads migrations, in order.
 *
 * @param texts the migrations by file name. Default: the migrations of this package
 * @throws Error naming a file whose name, number or mark is wrong
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

/** Reads the words after `--!` in the first line. */
function readMarks(name: string, text: string): readonly string[] {
  const [, directive = ''] = /^--!\s*(.*?)\s*(?:\n|$)/.exec(text) ?? []
  const marks = directive.split(/\s+/).filter((mark) => mark !== '')
  // Rejected here, because a misspelt mark would show only in failures of old processes.
  const unknown = marks.find((mark) => mark !== 'breaking' && mark !== 'concurrent')
  if (unknown !== undefined) {
    throw new Error(`Cannot migrate: '${name}' begins with the unknown mark '--! ${unknown}'`)
  }
  return marks
}

// --- Migrations in the database and in the package ---

/** A number under which the database holds another migration than this package. */
export interface RenamedMigration {
  readonly id: number
  /** File name of the migration that the database holds. */
  readonly applied: string
  /** File name of the migration in this package. */
  readonly known: string
}

/** The progress of migrations in a database. */
export interface SchemaState {
  /** Number of the newest migration that the database holds; 0 for none. */
  readonly current: number
  /** This package's newest migration number. */
  readonly latest: number
  /** Migrations of this package that the database does not hold, in order. */
  readonly pending: readonly Migration[]
  /** Migrations that a newer version of the package has applied, in order. */
  readonly newer: readonly AppliedMigration[]
  /** Migrations of a version with other numbers, in order. Such a schema is unknown to this version. */
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
 * Rejects a database that would stay unusable after migrating.
 *
 * @throws `BusinessApiError` with code `schema_too_new` when a newer version has applied a breaking migration
 * @throws Error naming the migrations of a gap (see {@link gapOf}), or one that the database holds under another name
 */
export function refuseUnusable(state: SchemaState): void {
  // Checked first, because the other checks compare numbers.
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

/** The remedy for a database with other numbers of migrations, for messages. */
export const RENAMED_ADVICE =
  'use the version of business-api-kit that migrated it, or migrate an empty database'

/** Describes a migration under whose number the package has another migration. */
export function describeRenamed({ id, applied, known }: RenamedMigration): string {
  return `migration ${id} is '${applied}' in the database and '${known}' in this version`
}

/**
 * Names the migrations that the database does not hold although it holds later migrations. Migrations are applied in order, all
 * or nothing, and leave no gap: rows were lost, or the schema comes from elsewhere. Applying the missing migrations again
 * would fail halfway at best.
 */
export function gapOf({ pending, current }: SchemaState): readonly string[] {
  return pending.filter(({ id }) => id < current).map(({ name }) => name)
}

/** Describes a gap. @param names file names of the missing migrations: see {@link gapOf} */
export function describeGap(names: readonly string[]): string {
  const rows = names.length === 1 ? 'has no row' : 'have no rows'
  return `${names.join(', ')} ${rows} in business_api.migrations, though later migrations are applied`
}

// --- Statements ---

/** Creates the table of applied migrations. */
export const MIGRATIONS_TABLE = `create table if not exists business_api.migrations (
  id integer not null,
  name text not null,
  breaking boolean not null,
  applied_at timestamptz not null default now(),
  constraint migrations_pkey primary key (id)
)`

/** Writes the statement that records a migration. The checked values hold only digits, lower-case letters and hyphens. */
export function recordStatement({ id, name, breaking }: AppliedMigration): string {
  return `insert into business_api.migrations (id, name, breaking) values (${id}, '${name}', ${breaking})`
}

/**
 * Writes migrations as a script for psql, for administrators who let no program change the schema. After the script,
 * `migrate` has nothing to do. With `ON_ERROR_STOP` a failed statement ends the script, and earlier migrations stay applied.
 *
 * @param isFirst true if the database holds no migration yet
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

/** Writes a check of the previous migration, because without `ON_ERROR_STOP` psql goes on after a failed migration. */
function writeGuard({ id, name }: Migration): string {
  return `do $$ begin
  if (select coalesce(max(id), 0) from business_api.migrations) <> ${id - 1} then
    raise exception 'Cannot apply ${name} because the database does not hold the migrations up to ${id - 1}';
  end if;
end $$;`
}
