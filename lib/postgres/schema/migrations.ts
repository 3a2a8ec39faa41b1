import { BusinessApiError, SCHEMA_TOO_NEW } from '../../base/errors.ts'
import { type MigrationTexts, readMigrationTexts } from './migration-texts.ts'

/** A migration that has been applied to the database. */
export interface AppliedMigration {
  /** Number of the migration. Starts at 1, with no gaps. */
  readonly id: number
  /** File name, such as `0001-businesses.sql`. */
  readonly name: string
  /** If `true`, package versions that don't know this migration can't use the migrated schema. */
  readonly breaking: boolean
}

/** A migration in this package. */
export interface Migration extends AppliedMigration {
  readonly text: string
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/

/** Advisory lock key, "business" in ASCII. The host is unlikely to use the same key. */
export const MIGRATION_LOCK_KEY = '7094703731946386291'

/**
 * Reads the migrations in order.
 *
 * @param texts migrations by file name. Defaults to this package's migrations
 * @throws Error with the name of a file whose name, number or mark is invalid
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
  const [, mark] = /^--!\s*(.*?)\s*(?:\n|$)/.exec(text) ?? []
  // Otherwise a misspelled mark would go unnoticed until old processes fail.
  if (mark !== undefined && mark !== 'breaking') {
    throw new Error(`Cannot migrate: '${name}' begins with the unknown mark '--! ${mark}'`)
  }
  return { id, name, breaking: mark === 'breaking', text }
}

// --- Comparing the database with the package ---

/** A number that means different migrations in the database and in this package. */
export interface RenamedMigration {
  readonly id: number
  /** File name in the database. */
  readonly applied: string
  /** File name in this package. */
  readonly known: string
}

/** Compares a database's migrations with this package's. */
export interface SchemaState {
  /** Number of the database's latest migration, or 0 if there is none. */
  readonly current: number
  /** Number of this package's latest migration. */
  readonly latest: number
  /** This package's migrations that haven't been applied, in order. */
  readonly pending: readonly Migration[]
  /** Migrations applied by a newer version of this package, in order. */
  readonly newer: readonly AppliedMigration[]
  /** Numbers that mean a different migration in this version, in order. Such a schema can't be used. */
  readonly renamed: readonly RenamedMigration[]
}

/** Compares a database's migrations with this package's. */
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
 * Throws if a database can't be used even after migrating.
 *
 * @throws `BusinessApiError` with code `schema_too_new` if a newer version has applied a breaking migration
 * @throws Error with the names of migrations that were skipped (see {@link gapOf}) or have a different name in the
 * database
 */
export function refuseUnusable(state: SchemaState): void {
  // This comes first because the other checks compare numbers.
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

/** Advice for a database whose migrations are numbered differently. */
export const RENAMED_ADVICE =
  'use the version of business-api-kit that migrated it, or migrate an empty database'

/** Describes a migration whose number means something else in this package. */
export function describeRenamed({ id, applied, known }: RenamedMigration): string {
  return `migration ${id} is '${applied}' in the database and '${known}' in this version`
}

/**
 * Returns the names of skipped migrations, i.e. missing ones followed by applied ones. Since migrations are applied in
 * order, rows were deleted or the schema comes from somewhere else. Applying the missing ones would fail halfway at
 * best.
 */
export function gapOf({ pending, current }: SchemaState): readonly string[] {
  return pending.filter(({ id }) => id < current).map(({ name }) => name)
}

/** Describes the skipped migrations from {@link gapOf}. */
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

/** Returns the statement that records a migration. Digits, lowercase letters and hyphens need no escaping. */
export function recordStatement({ id, name, breaking }: AppliedMigration): string {
  return `insert into business_api.migrations (id, name, breaking) values (${id}, '${name}', ${breaking})`
}

/**
 * Returns migrations as a psql script, for administrators who don't let programs change their schema. After running the
 * script, `migrate` has nothing left to do. With `ON_ERROR_STOP`, the script stops at a failed statement and earlier
 * migrations stay applied.
 *
 * @param isFirst `true` if no migrations have been applied yet
 */
export function writeMigrationScript(migrations: readonly Migration[], isFirst: boolean): string {
  const parts = migrations.map((migration, index) => {
    const text = migration.text.trimEnd()
    const table = `create schema if not exists business_api;\n${MIGRATIONS_TABLE};\n\n`
    const begin = `${BEGIN}\n\n${isFirst && index === 0 ? table : ''}${writeGuard(migration)}`
    return `-- ${migration.name}\n\n${begin}\n\n${text}\n\n${recordStatement(migration)};\ncommit;`
  })
  return `${parts.join('\n\n')}\n`
}

const BEGIN = `begin;
set local statement_timeout = 0;
set local lock_timeout = '1s';
set local search_path = '';
do $$ begin perform pg_advisory_xact_lock(${MIGRATION_LOCK_KEY}); end $$;`

/** Returns a check for the previous migration. Without `ON_ERROR_STOP`, psql continues after an error. */
function writeGuard({ id, name }: Migration): string {
  return `do $$ begin
  if (select coalesce(max(id), 0) from business_api.migrations) <> ${id - 1} then
    raise exception 'Cannot apply ${name} because the database does not hold the migrations up to ${id - 1}';
  end if;
end $$;`
}
