import postgres, { type Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { sleep } from '../../base/time.ts'
import { connectionFault } from '../connection/connection-fault.ts'
import { inTransaction } from '../connection/plain-transaction.ts'
import {
  type AppliedMigration,
  compareMigrations,
  MIGRATION_LOCK_KEY,
  MIGRATIONS_TABLE,
  type Migration,
  recordStatement,
  refuseUnusable,
} from './migrations.ts'
import { findServerFault } from './server-fault.ts'

// Migrations are applied one at a time, each in a transaction that also records it. A transaction-level advisory lock
// keeps other processes out. A process that doesn't get the lock ends its transaction and retries later. Unlike session
// locks, transaction locks also work behind a pooler in transaction mode.

/** The result of a step. */
export interface StepReport {
  /** File name of the applied migration, or `null` if there was nothing to do. */
  readonly name: string | null
  /** Number of the database's latest migration. */
  readonly current: number
}

/** When to give up, and where warnings go. */
export interface StepOptions {
  /** When to stop waiting, in ms on the monotonic clock. */
  readonly deadlineAt: number
  readonly logger: Logger
}

/** Regardless of the database's defaults, each statement must see what other processes have committed. */
export const TRANSACTION_MODE = 'read committed read write'

/** Maximum time to wait for a lock in ms, which blocks all later statements on the table. */
const LOCK_TIMEOUT_MS = 1000
const PAUSE_MS = 250
const PAUSE_MAX_MS = 8000
/** Maximum pause while another process is migrating, in ms. It usually takes less than a second. */
const PAUSE_FOR_OTHER_MAX_MS = 1000
const WARN_EVERY_MS = 5000

/** Creates the step that applies the first pending migration, retrying until the deadline. */
export function createMigrationStep(
  source: Sql | string,
  migrations: readonly Migration[],
  { deadlineAt, logger }: StepOptions,
): () => Promise<StepReport> {
  const warn = createWarning(logger)

  const begin = <Result>(work: (sql: Sql) => Promise<Result>): Promise<Result> =>
    inTransaction(source, TRANSACTION_MODE, async (sql) => {
      await prepareTransaction(sql)
      return work(sql)
    })

  async function tryNext(): Promise<StepReport | 'busy'> {
    const { next: pending, current } = await begin((sql) => readPending(sql, migrations))
    if (pending === undefined) return { name: null, current }
    // This needs a new transaction, because the migrations table must not be read before we have the lock.
    return begin(async (sql) => {
      const [[isOurs] = []] = await readText(
        sql,
        `select pg_try_advisory_xact_lock(${MIGRATION_LOCK_KEY})::text`,
      )
      if (isOurs !== 'true') return 'busy'
      const { next, current } = await readPending(sql, migrations)
      if (next === undefined) return { name: null, current }
      await refuseServer(sql)
      if (current === 0) await createMigrationsTable(sql)
      await applyText(sql, next)
      await sql.unsafe(recordStatement(next))
      return { name: next.name, current: Math.max(next.id, current) }
    })
  }

  /** Waits before the next try, while other sessions proceed. `reason` has the advice at its end. */
  async function pause(count: number, maxMs: number, reason: string, cause?: unknown): Promise<void> {
    if (performance.now() >= deadlineAt) throw storeUnavailable(`${reason}, then migrate again`, cause)
    if (count > 0 || cause !== undefined) warn(`Trying again: ${reason}`)
    const pauseMs = Math.min(PAUSE_MS * 2 ** count, maxMs) * (0.5 + Math.random() / 2)
    await sleep(Math.min(pauseMs, Math.max(0, deadlineAt - performance.now())))
  }

  return async function applyNext() {
    for (let count = 0; ; count++) {
      try {
        const report = await tryNext()
        if (report !== 'busy') return report
        await pause(count, PAUSE_FOR_OTHER_MAX_MS, OTHER_IS_MIGRATING)
      } catch (error) {
        if (!isLockFault(error)) throw error
        const fault =
          error instanceof postgres.PostgresError ? `Cannot migrate: ${error.message}` : error.message
        await pause(count, PAUSE_MAX_MS, `${fault}; ${LOCK_ADVICE}`, error)
      }
    }
  }
}

const OTHER_IS_MIGRATING = 'Cannot migrate because another process is still migrating; wait for its end'
const LOCK_ADVICE = 'look for the oldest xact_start in pg_stat_activity, and end that transaction'

/** Creates a function that logs a warning at most once every few seconds. */
function createWarning(logger: Logger): (message: string) => void {
  let warnedAt = Number.NEGATIVE_INFINITY
  return (message) => {
    if (performance.now() - warnedAt < WARN_EVERY_MS) return
    warnedAt = performance.now()
    logger.warn({}, message)
  }
}

const LOCK_FAULTS = new Set([
  '55P03', // lock_not_available: lock_timeout
  '40P01', // deadlock_detected
])

function isLockFault(error: unknown): error is Error {
  // A failed migration wraps the driver's error.
  const cause = error instanceof Error ? (error.cause ?? error) : error
  return cause instanceof postgres.PostgresError && LOCK_FAULTS.has(cause.code)
}

// --- Inside the transaction ---

async function prepareTransaction(sql: Sql): Promise<void> {
  // With an empty `search_path`, unqualified names fail instead of accidentally referring to the host's tables.
  await sql.unsafe(`
    set local lock_timeout = ${LOCK_TIMEOUT_MS};
    set local client_min_messages = warning;
    set local search_path = ''`)
}

/** Rejects unsupported servers up front, because a migration would fail with an error that's hard to understand. */
async function refuseServer(sql: Sql): Promise<void> {
  const [[version = '', number, encoding = ''] = []] = await readText(
    sql,
    `select current_setting('server_version'), current_setting('server_version_num'), current_setting('server_encoding')`,
  )
  const fault = findServerFault({
    version: String(version).split(' ')[0] ?? '',
    versionNumber: Number(number),
    encoding: String(encoding),
  })
  if (fault !== null) throw new Error(`Cannot migrate because ${fault.message}: ${fault.advice}`)
}

async function readPending(
  sql: Sql,
  migrations: readonly Migration[],
): Promise<{ readonly next: Migration | undefined; readonly current: number }> {
  const state = compareMigrations(await readApplied(sql), migrations)
  refuseUnusable(state)
  return { next: state.pending[0], current: state.current }
}

async function readApplied(sql: Sql): Promise<AppliedMigration[]> {
  // We don't use `to_regclass` because a session caches that a table doesn't exist, even after another session has
  // committed it. Querying the catalogs takes locks on tables, which makes the session process other sessions' commits.
  const tables = await readText(
    sql,
    `select c.relname::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'business_api' and c.relname = 'migrations'`,
  )
  if (tables.length === 0) return []
  const rows = await readText(
    sql,
    `select id::text, name, breaking::text from business_api.migrations order by id`,
  )
  return rows.map(([id, name, breaking]) => ({
    id: Number(id),
    name: String(name),
    breaking: breaking === 'true',
  }))
}

async function createMigrationsTable(sql: Sql): Promise<void> {
  const [schema] = await readText(sql, `select to_regnamespace('business_api')::text`)
  // We don't use "if not exists" because it requires the privilege to create schemas, even if an administrator has
  // already created this one.
  if (schema?.[0] == null) await sql.unsafe('create schema business_api')
  await sql.unsafe(MIGRATIONS_TABLE)
}

async function applyText(sql: Sql, { name, text }: Migration): Promise<void> {
  try {
    await sql.unsafe(text)
  } catch (cause) {
    if (connectionFault(cause) !== null) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`Cannot apply migration '${name}': ${reason}`, { cause })
  }
}

/** Runs a statement and returns the rows as strings. */
async function readText(sql: Sql, statement: string): Promise<(string | null)[][]> {
  const rows = await sql.unsafe(statement).raw()
  return rows.map((row) => row.map((value) => value?.toString() ?? null))
}
