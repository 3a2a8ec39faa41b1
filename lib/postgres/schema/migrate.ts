import type postgres from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { type Logger, mutedLogger } from '../../base/log.ts'
import { type Names, readLogger, readWhole, rejectUnknown } from '../../base/options.ts'
import type { Service } from '../../service.ts'
import { connectionFault } from '../connection/connection-fault.ts'
import { openPlainPool } from '../connection/plain-pool.ts'
import { readSource } from '../connection/source.ts'
import { describeTarget, readTarget } from '../connection/target.ts'
import { EVENT_BYTES_MAX, EVENT_BYTES_MIN, writeEventLimit } from './event-limit.ts'
import { registerEvents } from './event-types.ts'
import { createLockWatch } from './lock-watch.ts'
import { createMigrationStep } from './migration-step.ts'
import type { MigrationTexts } from './migration-texts.ts'
import { readMigrations } from './migrations.ts'

/** Options of {@link migrate}. */
export interface MigrateOptions {
  /**
   * The service, whose own event types are registered for publishers in SQL: `business_api.publish_event` takes them from then on. Types
   * that another version of the host has registered stay. Default: none are registered, which `createPlatform` does not need.
   */
  service?: Service | undefined
  /**
   * The maximum size of an event's body in bytes, from 65,536 to 4,194,304. The database keeps the size for every process and
   * for publishers in SQL. Default: unchanged; a new database has 262,144.
   */
  maxEventBytes?: number | undefined
  /**
   * Milliseconds that this call may spend waiting: for locks of other sessions, and for another process that migrates.
   * The work itself is not limited. Default 300,000.
   */
  timeoutMs?: number | undefined
  /** Receives a warning that names the blocking session while a migration waits. Default: JSON lines on stderr. */
  logger?: Logger | false | undefined
}

/** The result of {@link migrate}. */
export interface MigrationReport {
  /** File names of the migrations applied by this call, in order; empty when the schema was up to date. */
  applied: string[]
  /** Number of the newest migration that the database holds; 0 for none. */
  current: number
  /** The own event types of the service that this call has registered; absent if the service has none. */
  events?: string[]
}

const NAMES: Names<MigrateOptions> = { service: true, maxEventBytes: true, timeoutMs: true, logger: true }

/**
 * Creates the schema `business_api` or brings it up to date. Each migration runs in one transaction, and a failed one leaves no trace; indexes on
 * large tables are built outside a transaction (`create index concurrently`). Any number of processes may call `migrate` at once, for example at
 * every start: each migration is applied once. If none is pending, a user that may only read `business_api.migrations` is enough.
 *
 * Other sessions wait at most a second at a time: a migration that waits longer for a lock leaves the queue, and tries again once the blocking
 * transactions have ended. It works through a transaction-mode pooler; a waiting migration needs two of the pooler's connections.
 *
 * A database that a newer version has migrated is accepted, unless a newer migration is marked `breaking`.
 *
 * @param source your postgres.js pool, with any options, or a connection string. For a connection string one connection is opened and closed
 *   again. Up to two more are opened while a migration waits or builds an index
 * @throws RangeError for an option out of range; TypeError for an invalid connection string, without any part of the string
 * @throws BusinessApiError `schema_too_new`: this version can't run against the database; `store_unavailable`: PostgreSQL can't be reached or
 *   rejects the login, or the timeout has passed, and the message names the reason and the remedy, or the blocking sessions
 * @throws Error naming the file of a failed migration, with PostgreSQL's error as `cause`; earlier migrations stay applied
 * @throws Error naming the migrations that are missing although later ones are applied, or that have another name in the database
 * @example
 * ```ts
 * const { applied } = await migrate(process.env.DATABASE_URL ?? '')
 * ```
 */
export async function migrate(
  source: postgres.Sql | string,
  options: MigrateOptions = {},
): Promise<MigrationReport> {
  readSource(source)
  rejectUnknown(options, NAMES)
  const { service, maxEventBytes } = options
  if (maxEventBytes !== undefined) {
    readWhole('maxEventBytes', maxEventBytes, 0, { min: EVENT_BYTES_MIN, max: EVENT_BYTES_MAX })
  }
  const timeoutMs = readWhole('timeoutMs', options.timeoutMs, TIMEOUT_MS)
  const logger = readLogger(options.logger)

  async function work(sql: postgres.Sql): Promise<MigrationReport> {
    const report = await migrateFrom(sql, undefined, { timeoutMs, logger })
    if (maxEventBytes !== undefined) await writeEventLimit(sql, maxEventBytes)
    return service?.events.length ? { ...report, events: await registerEvents(sql, service) } : report
  }

  try {
    return typeof source === 'string' ? await withPlainPool(source, work) : await work(source)
  } catch (error) {
    throw explain(error, source)
  }
}

async function withPlainPool<Result>(
  url: string,
  work: (sql: postgres.Sql) => Promise<Result>,
): Promise<Result> {
  const sql = await openPlainPool(url)
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Returns the library's error for a failed connection; any other error unchanged, and so the error of a failed migration. */
function explain(error: unknown, source: postgres.Sql | string): unknown {
  const fault = connectionFault(error)
  if (fault === null) return error
  const target = describeTarget(readTarget(source))
  return storeUnavailable(`Cannot migrate because PostgreSQL (${target}) cannot be used: ${fault}`, error)
}

/** Long enough for the owner of a forgotten transaction to notice, and shorter than the usual timeout of a deployment. */
const TIMEOUT_MS = 300_000

/**
 * Does the work of {@link migrate}, with any migrations.
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
