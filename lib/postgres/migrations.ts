import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BusinessApiError, SCHEMA_TOO_NEW } from '../errors.ts'

/** A migration as the database remembers it. */
export interface AppliedMigration {
  /** From 1, without gaps. */
  readonly id: number
  /** Of its file: `0001-clients.sql`. */
  readonly name: string
  /** Whether older versions of this package cannot run once it is applied. */
  readonly breaking: boolean
}

/** A migration as the package has it. */
export interface Migration extends AppliedMigration {
  readonly text: string
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/

/** The migrations of this package: beside `lib` in the sources, beside `dist` where it is installed. */
export const MIGRATIONS_DIRECTORY: string = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'sql')

/** "business" in ASCII: a key that no other use of advisory locks in the host's database is likely to have. */
export const MIGRATION_LOCK_KEY = '7094703731946386291'

/**
 * Reads all migrations of a directory, in order.
 *
 * @throws Error naming the file that is not named or marked as a migration is
 */
export async function readMigrations(directory: string = MIGRATIONS_DIRECTORY): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(names.map((name, index) => readMigration(directory, name, index + 1)))
}

async function readMigration(directory: string, name: string, expectedId: number): Promise<Migration> {
  const digits = FILE_NAME.exec(name)?.[1]
  if (digits === undefined) throw new Error(`Cannot migrate: '${name}' is not named like 0001-name.sql`)
  const id = Number(digits)
  if (id !== expectedId) {
    const expected = String(expectedId).padStart(4, '0')
    throw new Error(
      `Cannot migrate: expected number ${expected} but found '${name}'; a number is missing or double`,
    )
  }
  const text = await readFile(join(directory, name), 'utf8')
  return { id, name, breaking: isBreaking(name, text), text }
}

function isBreaking(name: string, text: string): boolean {
  const [, directive] = /^--!\s*(.*?)\s*(?:\n|$)/.exec(text) ?? []
  // A misspelt mark would be found out only when old processes fail.
  if (directive !== undefined && directive !== 'breaking') {
    throw new Error(`Cannot migrate: '${name}' begins with the unknown mark '--! ${directive}'`)
  }
  return directive === 'breaking'
}

/** What has still to be applied. */
export function pendingOf(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): Migration[] {
  const known = new Set(applied.map(({ id }) => id))
  return migrations.filter(({ id }) => !known.has(id))
}

/**
 * @param known number of the newest migration of this package
 * @throws `BusinessApiError` with code `schema_too_new` when a newer version has applied a breaking one
 */
export function refuseNewerSchema(applied: readonly AppliedMigration[], known: number): void {
  const breaking = applied.find((migration) => migration.id > known && migration.breaking)
  if (breaking === undefined) return
  throw new BusinessApiError(
    SCHEMA_TOO_NEW,
    `Cannot use this database: it holds the breaking migration '${breaking.name}', ` +
      `and this version of business-api knows migrations up to ${known}; install a newer one`,
  )
}

/**
 * Migrations of which the database remembers later ones, but not them. Applied in order, all or nothing, they leave no
 * gap: their rows were lost, or the schema comes from somewhere else. To apply them again would fail halfway at best.
 *
 * @param current number of the newest migration that the database remembers
 */
export function gapOf<Pending extends AppliedMigration>(
  pending: readonly Pending[],
  current: number,
): readonly Pending[] {
  return pending.filter(({ id }) => id < current)
}

/** @throws Error naming the migrations of a gap; see {@link gapOf} */
export function refuseGap(pending: readonly AppliedMigration[], current: number): void {
  const names = gapOf(pending, current).map(({ name }) => name)
  if (names.length > 0) throw new Error(`Cannot use this database: ${describeGap(names)}`)
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
 * does, all or nothing, and `migrate` finds nothing to do after it.
 *
 * @param isFirst whether the database holds no migration yet
 */
export function writeMigrationScript(migrations: readonly Migration[], isFirst: boolean): string {
  const parts = [
    `begin;
set local statement_timeout = 0;
set local search_path = '';
do $$ begin perform pg_advisory_xact_lock(${MIGRATION_LOCK_KEY}); end $$;`,
    ...(isFirst ? [`create schema if not exists business_api;\n${MIGRATIONS_TABLE};`] : []),
    ...migrations.map((migration) => {
      return `-- ${migration.name}\n\n${migration.text.trimEnd()}\n\n${recordStatement(migration)};`
    }),
    'commit;',
  ]
  return `${parts.join('\n\n')}\n`
}
