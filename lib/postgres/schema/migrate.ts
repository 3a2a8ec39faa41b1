import type postgres from 'postgres'
import { readWhole } from '../../base/options.ts'
import { openPlainPool } from '../connection/plain-pool.ts'
import { EVENT_BYTES_MAX, EVENT_BYTES_MIN, writeEventLimit } from './event-limit.ts'
import type { MigrationTexts } from './migration-texts.ts'
import {
  type AppliedMigration,
  compareMigrations,
  MIGRATION_LOCK_KEY,
  MIGRATIONS_TABLE,
  type Migration,
  readMigrations,
  recordStatement,
  refuseUnusable,
} from './migrations.ts'

/** Options of {@link migrate}. */
export interface MigrateOptions {
  /**
   * The greatest size of an event's body in bytes, from 65,536 to 4,194,304. The database keeps it for every process and for
   * publishers in SQL, until it is set again. Default: as it is, and 262,144 in a new database.
   */
  maxEventBytes?: number | undefined
}

/** What {@link migrate} has done. */
export interface MigrationReport {
  /** File names of the migrations applied by this call, in order; empty when the schema was up to date. */
  applied: string[]
  /** Number of the newest migration the database holds, 0 when there is none. */
  current: number
}

/**
 * Brings the schema `business_api` up to date, context it when it is missing. All pending migrations are applied in one
 * transaction, so a failing one leaves nothing behind. Any number of processes may call it at once, also at every
 * start: one applies, the others wait and find nothing to do. Where nothing is pending, a database user that may only
 * read `business_api.migrations` is enough.
 *
 * A database that a newer version of this package has migrated is accepted, unless one of the newer migrations is
 * marked as one that older code cannot run against.
 *
 * @param source the host's postgres.js connection, with whatever options it has, or a connection string, for which one
 *   connection is opened and closed again
 * @throws RangeError for an option out of range; TypeError for a connection string that cannot be used, without repeating it
 * @throws BusinessApiError `schema_too_new`: this version of the package cannot run against the database
 * @throws Error naming the file, with PostgreSQL's error as `cause`, when a migration fails; or naming those that the
 *   database does not remember although it remembers later ones, or that it remembers under another name
 */
export async function migrate(
  source: postgres.Sql | string,
  { maxEventBytes }: MigrateOptions = {},
): Promise<MigrationReport> {
  if (maxEventBytes !== undefined) {
    readWhole('maxEventBytes', maxEventBytes, 0, { min: EVENT_BYTES_MIN, max: EVENT_BYTES_MAX })
  }
  if (typeof source !== 'string') return migrateAndLimit(source, maxEventBytes)

  const sql = await openPlainPool(source)
  try {
    return await migrateAndLimit(sql, maxEventBytes)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

async function migrateAndLimit(
  sql: postgres.Sql,
  maxEventBytes: number | undefined,
): Promise<MigrationReport> {
  const report = await migrateFrom(sql)
  if (maxEventBytes !== undefined) await writeEventLimit(sql, maxEventBytes)
  return report
}

/**
 * The work of {@link migrate}, with any migrations.
 *
 * @internal
 */
export async function migrateFrom(sql: postgres.Sql, texts?: MigrationTexts): Promise<MigrationReport> {
  const migrations = await readMigrations(texts)
  // Read committed whatever the database's default is: what is read after the wait for the lock must be what the
  // process that held it has committed, not what was there when the wait began.
  return sql.begin('isolation level read committed read write', async (tx) => {
    await prepareTransaction(tx)
    const applied = await readApplied(tx)
    const state = compareMigrations(applied, migrations)
    refuseUnusable(state)
    const { pending } = state
    if (applied.length === 0 && pending.length > 0) await createMigrationsTable(tx)
    for (const migration of pending) await applyMigration(tx, migration)
    return {
      applied: pending.map(({ name }) => name),
      current: compareMigrations([...applied, ...pending], migrations).current,
    }
  })
}

async function prepareTransaction(tx: postgres.TransactionSql): Promise<void> {
  // The wait for another process's migrations counts as statement time, and a host's deadline for queries would end it.
  // An empty search_path: a name without its schema is an error in a migration, not a table somewhere else.
  await tx.unsafe(`
    set local statement_timeout = 0;
    set local client_min_messages = warning;
    set local search_path = '';
    select pg_advisory_xact_lock(${MIGRATION_LOCK_KEY})
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

async function createMigrationsTable(tx: postgres.TransactionSql): Promise<void> {
  const [schema] = await readText(tx, `select to_regnamespace('business_api')::text`)
  // Not "if not exists": that asks for the right to make schemas even where an administrator has made this one.
  if (schema?.[0] == null) await tx.unsafe('create schema business_api')
  await tx.unsafe(MIGRATIONS_TABLE)
}

async function applyMigration(tx: postgres.TransactionSql, migration: Migration): Promise<void> {
  try {
    await tx.unsafe(migration.text)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`Cannot apply migration '${migration.name}': ${reason}`, { cause })
  }
  // As text of the statement its values can't be changed by type serializers of the host, which parameters could.
  await tx.unsafe(recordStatement(migration))
}
