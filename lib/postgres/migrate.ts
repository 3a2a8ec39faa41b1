import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { BusinessApiError, SCHEMA_TOO_NEW } from '../errors.ts'

/** What {@link migrate} has done. */
export interface MigrationReport {
  /** File names of the migrations applied by this call, in order; empty when the schema was up to date. */
  applied: string[]
  /** Number of the newest migration the database holds, 0 when there is none. */
  current: number
}

interface AppliedMigration {
  id: number
  name: string
  breaking: boolean
}

interface Migration extends AppliedMigration {
  text: string
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/

// "business" in ASCII: a key that no other use of advisory locks in the host's database is likely to have.
const LOCK_KEY = '7094703731946386291'

/**
 * Brings the schema `business_api` up to date, making it when it is missing. All pending migrations are applied in one
 * transaction, so a failing one leaves nothing behind. Any number of processes may call it at once, also at every
 * start: one applies, the others wait and find nothing to do. Where nothing is pending, a database user that may only
 * read `business_api.migrations` is enough.
 *
 * A database that a newer version of this package has migrated is accepted, unless one of the newer migrations is
 * marked as one that older code cannot run against.
 *
 * @param source the host's postgres.js connection, with whatever options it has, or a connection string, for which one
 *   connection is opened and closed again
 * @throws BusinessApiError `schema_too_new`: this version of the package cannot run against the database
 * @throws Error naming the file, with PostgreSQL's error as `cause`, when a migration fails
 */
export async function migrate(source: postgres.Sql | string): Promise<MigrationReport> {
  const directory = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'sql')
  if (typeof source !== 'string') return migrateFrom(source, directory)

  const sql = postgres(source, { max: 1, prepare: false, fetch_types: false })
  try {
    return await migrateFrom(sql, directory)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/**
 * The work of {@link migrate}, with the migrations of any directory.
 *
 * @internal
 */
export async function migrateFrom(sql: postgres.Sql, directory: string): Promise<MigrationReport> {
  const migrations = await readMigrations(directory)
  // Read committed whatever the database's default is: what is read after the wait for the lock must be what the
  // process that held it has committed, not what was there when the wait began.
  return sql.begin('isolation level read committed read write', async (tx) => {
    await prepareTransaction(tx)
    const applied = await readApplied(tx)
    refuseNewerSchema(applied, migrations)
    const known = new Set(applied.map(({ id }) => id))
    const pending = migrations.filter(({ id }) => !known.has(id))
    if (applied.length === 0 && pending.length > 0) await createMigrationsTable(tx)
    for (const migration of pending) await applyMigration(tx, migration)
    return {
      applied: pending.map(({ name }) => name),
      current: Math.max(0, ...known, ...pending.map(({ id }) => id)),
    }
  })
}

async function readMigrations(directory: string): Promise<Migration[]> {
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

async function prepareTransaction(tx: postgres.TransactionSql): Promise<void> {
  // The wait for another process's migrations counts as statement time, and a host's deadline for queries would end it.
  // An empty search_path: a name without its schema is an error in a migration, not a table somewhere else.
  await tx.unsafe(`
    set local statement_timeout = 0;
    set local client_min_messages = warning;
    set local search_path = '';
    select pg_advisory_xact_lock(${LOCK_KEY})
  `)
}

async function readApplied(tx: postgres.TransactionSql): Promise<AppliedMigration[]> {
  const [table] = await readText(tx, `select to_regclass('business_api.migrations')::text`)
  if (table?.[0] == null) return []
  const rows = await readText(
    tx,
    `select id::text, name, breaking::text from business_api.migrations order by id`,
  )
  return rows.map(([id, name, breaking]) => ({
    id: Number(id),
    name: String(name),
    breaking: breaking === 'true',
  }))
}

/** Rows as arrays of text, untouched by the host's type parsers and transforms of columns and values. */
async function readText(tx: postgres.TransactionSql, query: string): Promise<(string | null)[][]> {
  const rows = await tx.unsafe(query).raw()
  // Object.values, as a transform of rows sees raw rows too and may have made an object of the array.
  return rows.map((row) => Object.values<Uint8Array | null>(row).map(decode))
}

function decode(value: Uint8Array | null): string | null {
  return value && Buffer.from(value).toString()
}

function refuseNewerSchema(applied: AppliedMigration[], migrations: Migration[]): void {
  const known = migrations.length
  const breaking = applied.find((migration) => migration.id > known && migration.breaking)
  if (breaking === undefined) return
  throw new BusinessApiError(
    SCHEMA_TOO_NEW,
    `Cannot use this database: it holds the breaking migration '${breaking.name}', ` +
      `and this version of business-api knows migrations up to ${known}; install a newer one`,
  )
}

async function createMigrationsTable(tx: postgres.TransactionSql): Promise<void> {
  const [schema] = await readText(tx, `select to_regnamespace('business_api')::text`)
  // Not "if not exists": that asks for the right to make schemas even where an administrator has made this one.
  if (schema?.[0] == null) await tx.unsafe('create schema business_api')
  await tx.unsafe(`
    create table if not exists business_api.migrations (
      id integer not null,
      name text not null,
      breaking boolean not null,
      applied_at timestamptz not null default now(),
      constraint migrations_pkey primary key (id)
    )
  `)
}

async function applyMigration(tx: postgres.TransactionSql, migration: Migration): Promise<void> {
  const { id, name, breaking, text } = migration
  try {
    await tx.unsafe(text)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`Cannot apply migration '${name}': ${reason}`, { cause })
  }
  // Every value has been checked to hold only digits, lower-case letters and hyphens. As text of the statement they
  // can't be changed by type serializers of the host, which parameters could.
  await tx.unsafe(
    `insert into business_api.migrations (id, name, breaking) values (${id}, '${name}', ${breaking})`,
  )
}
