import type postgres from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { type Logger, mutedLogger } from '../../base/log.ts'
import { type Names, readLogger, readWhole, rejectUnknown } from '../../base/options.ts'
import type { Service } from '../../service.ts'
import { connectionFault } from '../connection/connection-fault.ts'
import { inTransaction } from '../connection/plain-transaction.ts'
import { readSource } from '../connection/source.ts'
import { describeTarget, readTarget } from '../connection/target.ts'
import { EVENT_BYTES_MAX, EVENT_BYTES_MIN, writeEventLimit } from './event-limit.ts'
import { registerEvents } from './event-types.ts'
import { createMigrationStep, TRANSACTION_MODE } from './migration-step.ts'
import type { MigrationTexts } from './migration-texts.ts'
import { readMigrations } from './migrations.ts'

/** Options for {@link migrate}. */
export interface MigrateOptions {
  /**
   * A service whose custom event types are registered, so `business_api.publish_event` accepts them. `createPlatform`
   * doesn't need this. Types registered by other versions of the host are kept. By default, nothing is registered.
   */
  service?: Service | undefined
  /**
   * Maximum size of an event body in bytes, from 65,536 to 4,194,304. The limit is stored in the database and applies
   * to all processes and to publishers in SQL. Unchanged by default; a new database starts with 262,144.
   */
  maxEventBytes?: number | undefined
  /**
   * Maximum time to wait for locks and for other processes that are migrating, in milliseconds. The work itself has no
   * time limit. Defaults to 300,000.
   */
  timeoutMs?: number | undefined
  /** Receives warnings while a migration is waiting. Defaults to JSON lines on stderr. */
  logger?: Logger | false | undefined
}

/** The result of {@link migrate}. */
export interface MigrationReport {
  /** File names of the newly applied migrations, in order. Empty if the schema was up to date. */
  applied: string[]
  /** Number of the database's latest migration, or 0 if there is none. */
  current: number
  /** The newly registered custom event types. Not set if the service has none. */
  events?: string[]
}

const NAMES: Names<MigrateOptions> = { service: true, maxEventBytes: true, timeoutMs: true, logger: true }

/**
 * Creates the schema `business_api` or upgrades it to this version. Each migration runs in a transaction and is rolled
 * back if it fails. You can call `migrate` from any number of processes at once, for example on every start, and each
 * migration is applied only once. If there's nothing to do, the user only needs to be able to read
 * `business_api.migrations`.
 *
 * Other sessions are blocked for up to a second at a time. A migration that has to wait longer for a lock gives up and
 * tries again later. Poolers in transaction mode are supported.
 *
 * A database that was migrated by a newer version is accepted, unless one of the newer migrations is marked `breaking`.
 *
 * @param source a connection string, or your postgres.js pool with any options. Either way, `migrate` opens its own
 * connections to the same server and closes them again
 * @throws RangeError if an option is out of range; TypeError if the connection string is invalid, without quoting it
 * @throws BusinessApiError `schema_too_new` if this version can't use the database; `store_unavailable` if PostgreSQL
 * can't be reached, rejects the login, or the timeout has passed. The message has a reason and a fix
 * @throws Error with the file name of a failed migration, and PostgreSQL's error as `cause`. Earlier migrations stay
 * applied
 * @throws Error with the names of migrations that were skipped in the database or have a different name there
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

  try {
    const report = await migrateFrom(source, undefined, { timeoutMs, logger })
    if (maxEventBytes === undefined && !service?.events.length) return report
    return await inTransaction(source, TRANSACTION_MODE, async (sql) => {
      if (maxEventBytes !== undefined) await writeEventLimit(sql, maxEventBytes)
      return service?.events.length ? { ...report, events: await registerEvents(sql, service) } : report
    })
  } catch (error) {
    throw explain(error, source)
  }
}

/** Converts connection errors to ours. Any other error, such as a failed migration, is returned unchanged. */
function explain(error: unknown, source: postgres.Sql | string): unknown {
  const fault = connectionFault(error)
  if (fault === null) return error
  const target = describeTarget(readTarget(source))
  return storeUnavailable(`Cannot migrate because PostgreSQL (${target}) cannot be used: ${fault}`, error)
}

/** Long enough for someone to notice a forgotten transaction, but shorter than most deployment timeouts. */
const TIMEOUT_MS = 300_000

/**
 * Implements {@link migrate} for any set of migrations.
 *
 * @internal
 */
export async function migrateFrom(
  source: postgres.Sql | string,
  texts?: MigrationTexts,
  {
    timeoutMs = TIMEOUT_MS,
    logger = mutedLogger,
  }: Pick<MigrateOptions, 'timeoutMs'> & { logger?: Logger } = {},
): Promise<MigrationReport> {
  const migrations = await readMigrations(texts)
  const applyNext = createMigrationStep(source, migrations, {
    deadlineAt: performance.now() + timeoutMs,
    logger,
  })
  const applied: string[] = []
  for (;;) {
    const { name, current } = await applyNext()
    if (name === null) return { applied, current }
    applied.push(name)
  }
}
