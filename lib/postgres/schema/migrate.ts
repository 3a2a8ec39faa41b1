import type postgres from 'postgres'
import { type Logger, mutedLogger } from '../../base/log.ts'
import { readLogger, readWhole } from '../../base/options.ts'
import { openPlainPool } from '../connection/plain-pool.ts'
import { EVENT_BYTES_MAX, EVENT_BYTES_MIN, writeEventLimit } from './event-limit.ts'
import { createLockWatch } from './lock-watch.ts'
import { createMigrationStep } from './migration-step.ts'
import type { MigrationTexts } from './migration-texts.ts'
import { readMigrations } from './migrations.ts'

/** Options of {@link migrate}. */
export interface MigrateOptions {
  /**
   * The greatest size of an event's body in bytes, from 65,536 to 4,194,304. The database keeps it for every process and for
   * publishers in SQL, until it is set again. Default: as it is, and 262,144 in a new database.
   */
  maxEventBytes?: number | undefined
  /**
   * Milliseconds that this call may spend waiting: for locks of other sessions, and for another process that migrates.
   * The work itself is not limited. Default 300,000.
   */
  timeoutMs?: number | undefined
  /** Gets a warning that names the blocking session while a migration waits. Default: JSON lines on stderr. */
  logger?: Logger | false | undefined
}

/** The result of {@link migrate}. */
export interface MigrationReport {
  /** File names of the migrations applied by this call, in order; empty when the schema was up to date. */
  applied: string[]
  /** Number of the newest migration the database holds, 0 when there is none. */
  current: number
}

/**
 * Brings the schema `business_api` up to date, and creates it when it is missing. Each migration is one transaction, and a
 * failing one leaves nothing of itself behind; migrations that build indexes on large tables run outside a transaction
 * (`create index concurrently`). Any number of processes may call it at once, also at every start: each migration is
 * applied by one of them. Where nothing is pending, a database user that may only read `business_api.migrations` is enough.
 *
 * Other sessions are not held up for more than a second at a time: a migration that waits longer for a lock gives up its
 * place in the queue, and is tried again when the blocking transactions have ended. Works through a transaction-mode pooler,
 * which needs two free connections to the database then.
 *
 * A database that a newer version of this package has migrated is accepted, unless one of the newer migrations is
 * marked as one that older code cannot run against.
 *
 * @param source the host's postgres.js connection, with whatever options it has, or a connection string, for which one
 *   connection is opened and closed again; up to two more are opened while a migration waits or builds an index
 * @throws RangeError for an option out of range; TypeError for a connection string that cannot be used, without repeating it
 * @throws BusinessApiError `schema_too_new`: this version of the package cannot run against the database;
 *   `store_unavailable`: the time for waiting is over, and the message names the blocking sessions
 * @throws Error naming the file, with PostgreSQL's error as `cause`, when a migration fails, those before it being applied;
 *   or naming those that the database does not remember although it remembers later ones, or that it remembers under
 *   another name
 */
export async function migrate(
  source: postgres.Sql | string,
  { maxEventBytes, timeoutMs: givenTimeoutMs, logger: givenLogger }: MigrateOptions = {},
): Promise<MigrationReport> {
  if (maxEventBytes !== undefined) {
    readWhole('maxEventBytes', maxEventBytes, 0, { min: EVENT_BYTES_MIN, max: EVENT_BYTES_MAX })
  }
  const timeoutMs = readWhole('timeoutMs', givenTimeoutMs, TIMEOUT_MS)
  const logger = readLogger(givenLogger)

  async function work(sql: postgres.Sql): Promise<MigrationReport> {
    const report = await migrateFrom(sql, undefined, { timeoutMs, logger })
    if (maxEventBytes !== undefined) await writeEventLimit(sql, maxEventBytes)
    return report
  }

  if (typeof source !== 'string') return work(source)
  const sql = await openPlainPool(source)
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** For a forgotten transaction to be noticed by its owner, and below what deployments wait for. */
const TIMEOUT_MS = 300_000

/**
 * The work of {@link migrate}, with any migrations.
 *
 * @internal
 */
export async function migrateFrom(
  sql: postgres.Sql,
  texts?: MigrationTexts,
  {
    timeoutMs = TIMEOUT_MS,
    logger = mutedLogger,
  }: Pick<MigrateOptions, 'timeoutMs'> & { logger?: Logger } = {},
): Promise<MigrationReport> {
  const migrations = await readMigrations(texts)
  const watch = createLockWatch(sql)
  const applyNext = createMigrationStep(sql, migrations, watch, {
    deadlineAt: performance.now() + timeoutMs,
    logger,
  })
  const applied: string[] = []
  try {
    for (;;) {
      const { name, current } = await applyNext()
      if (name === null) return { applied, current }
      applied.push(name)
    }
  } finally {
    await watch.close()
  }
}
