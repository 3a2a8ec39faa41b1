import postgres, { type Sql, type TransactionSql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { sleep } from '../../base/time.ts'
import { describeWait, type LockWait, type LockWatch, readText } from './lock-watch.ts'
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

/** Maximum time to wait for a lock in ms, which blocks all later statements on the table. */
export const LOCK_TIMEOUT_MS = 1000
/** How often to check for lock waits, in ms. Shorter waits go unnoticed. */
const POLL_INTERVAL_MS = 300
const PAUSE_MS = 250
const PAUSE_MAX_MS = 8000
/** Maximum time to wait for blocking transactions before retrying anyway, in ms. */
const PAUSE_FOR_BLOCKERS_MS = 15_000
const WARN_EVERY_MS = 5000

/** Creates the step that applies the first pending migration, retrying until the deadline. */
export function createMigrationStep(
  sql: Sql,
  migrations: readonly Migration[],
  watch: LockWatch,
  { deadlineAt, logger }: StepOptions,
): () => Promise<StepReport> {
  const warn = createWarning(logger)

  // Regardless of the database's default isolation level, each statement must see what other processes have committed.
  const begin = <Result>(work: (tx: TransactionSql) => Promise<Result>): Promise<Result> =>
    sql.begin('isolation level read committed read write', async (tx) => {
      await prepareTransaction(tx)
      return work(tx)
    }) as Promise<Result>

  async function tryNext(tries: Tries): Promise<StepReport | 'busy'> {
    const { next: pending, current } = await begin((tx) => readPending(tx, migrations))
    if (pending === undefined) return { name: null, current }
    // This needs a new transaction, because the migrations table must not be read before we have the lock.
    return begin(async (tx) => {
      const [[pid, isOurs] = []] = await readText(
        tx,
        `select pg_backend_pid()::text, pg_try_advisory_xact_lock(${MIGRATION_LOCK_KEY})::text`,
      )
      if (isOurs !== 'true') return 'busy'
      const { next, current } = await readPending(tx, migrations)
      if (next === undefined) return { name: null, current }
      await refuseServer(tx)
      tries.migration = next.name
      if (current === 0) await createMigrationsTable(tx)
      await observed(watch, `pid = ${pid}`, tries, () => applyText(tx, next))
      // We don't use parameters because the host's type serializers could change the values.
      await tx.unsafe(recordStatement(next))
      return { name: next.name, current: Math.max(next.id, current) }
    })
  }

  return async function applyNext() {
    const tries: Tries = { count: 0, migration: null, wait: null }
    for (;;) {
      tries.wait = null
      try {
        const report = await tryNext(tries)
        if (report !== 'busy') return report
        await pauseForOther(tries)
      } catch (error) {
        if (!isLockFault(error)) throw error
        await pauseForLock(tries, error)
      }
      tries.count++
    }
  }

  /** Waits for another process to finish migrating. */
  async function pauseForOther({ count }: Tries): Promise<void> {
    // The session only matters for messages, so carry on if we can't get a second connection.
    const [[pid] = []] = await watch.read(HOLDER).catch(() => [])
    const holder = pid == null ? 'another process' : `another process (session ${pid})`
    if (performance.now() >= deadlineAt) {
      throw storeUnavailable(
        `Cannot migrate because ${holder} is still migrating; wait for its end, then migrate again`,
      )
    }
    if (count > 0) warn(`Migrating waits for ${holder}, which is migrating`)
    await sleep(Math.min(PAUSE_MS * 2 ** count, 1000) * (0.5 + Math.random() / 2))
  }

  /** Waits for a blocking transaction. Other sessions can proceed in the meantime. */
  async function pauseForLock({ count, migration, wait }: Tries, cause: unknown): Promise<void> {
    const reason = describeWait(wait)
    if (performance.now() >= deadlineAt) {
      throw storeUnavailable(`Cannot apply migration '${migration}': ${reason}; then migrate again`, cause)
    }
    warn(`Migration '${migration}' is tried again later: ${reason}`)
    const begunAt = performance.now()
    const pauseMs = Math.min(PAUSE_MS * 2 ** count, PAUSE_MAX_MS) * (0.5 + Math.random() / 2)
    for (;;) {
      await sleep(PAUSE_MS)
      const now = performance.now()
      if (now >= Math.min(deadlineAt, begunAt + PAUSE_FOR_BLOCKERS_MS)) return
      if (now >= begunAt + pauseMs && !(await watch.areLeft(wait?.blockers ?? []).catch(() => false))) return
    }
  }
}

interface Tries {
  count: number
  /** The migration that was tried last. */
  migration: string | null
  /** The last lock wait seen during this attempt. */
  wait: LockWait | null
}

/** Selects the session that holds the advisory lock. `pg_locks` splits the key into two columns. */
const HOLDER = `
  select pid::text from pg_catalog.pg_locks
   where locktype = 'advisory' and granted and objsubid = 1
     and classid::bigint = ${MIGRATION_LOCK_KEY} >> 32 and objid::bigint = ${MIGRATION_LOCK_KEY} & 4294967295
     and database = (select oid from pg_catalog.pg_database where datname = current_database())`

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

function isLockFault(error: unknown): boolean {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return cause instanceof postgres.PostgresError && LOCK_FAULTS.has(cause.code)
}

// --- Inside the transaction ---

async function prepareTransaction(tx: TransactionSql): Promise<void> {
  // The host's timeouts must not interrupt a migration (`transaction_timeout` requires PostgreSQL 17). With an empty
  // `search_path`, unqualified names fail instead of accidentally referring to the host's tables.
  await tx.unsafe(`
    select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings
     where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
    set local lock_timeout = ${LOCK_TIMEOUT_MS};
    set local client_min_messages = warning;
    set local search_path = ''`)
}

/** Rejects unsupported servers up front, because a migration would fail with an error that's hard to understand. */
async function refuseServer(tx: TransactionSql): Promise<void> {
  const [[version = '', number, encoding = ''] = []] = await readText(
    tx,
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
  tx: TransactionSql,
  migrations: readonly Migration[],
): Promise<{ readonly next: Migration | undefined; readonly current: number }> {
  const state = compareMigrations(await readApplied(tx), migrations)
  refuseUnusable(state)
  return { next: state.pending[0], current: state.current }
}

async function readApplied(tx: TransactionSql): Promise<AppliedMigration[]> {
  // We don't use `to_regclass` because a session caches that a table doesn't exist, even after another session has
  // committed it. Querying the catalogs takes locks on tables, which makes the session process other sessions' commits.
  const tables = await readText(
    tx,
    `select c.relname::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'business_api' and c.relname = 'migrations'`,
  )
  if (tables.length === 0) return []
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

async function createMigrationsTable(tx: TransactionSql): Promise<void> {
  const [schema] = await readText(tx, `select to_regnamespace('business_api')::text`)
  // We don't use "if not exists" because it requires the privilege to create schemas, even if an administrator has
  // already created this one.
  if (schema?.[0] == null) await tx.unsafe('create schema business_api')
  await tx.unsafe(MIGRATIONS_TABLE)
}

async function applyText(tx: TransactionSql, { name, text }: Migration): Promise<void> {
  try {
    await tx.unsafe(text)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`Cannot apply migration '${name}': ${reason}`, { cause })
  }
}

/** Runs `work` while polling what the session is waiting for. */
async function observed(
  watch: LockWatch,
  session: string,
  tries: Tries,
  work: () => Promise<void>,
): Promise<void> {
  let isOver = false
  let timer: NodeJS.Timeout | undefined
  const poll = async (): Promise<void> => {
    const wait = await watch.readWait(session).catch(() => null)
    if (isOver) return
    if (wait !== null && wait.blockers.length > 0) tries.wait = wait
    timer = setTimeout(poll, POLL_INTERVAL_MS)
  }
  timer = setTimeout(poll, POLL_INTERVAL_MS)
  try {
    await work()
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}
