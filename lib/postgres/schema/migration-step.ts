import postgres, { type Sql, type TransactionSql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { sleep } from '../../base/time.ts'
import { buildConcurrently } from './concurrent-indexes.ts'
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

// One migration at a time, each in a transaction that also records the migration. An advisory lock of that transaction keeps
// other processes out. No session waits for the advisory lock: a waiting session has a snapshot, and CREATE INDEX CONCURRENTLY
// waits for every snapshot older than the index. A process that does not get the lock ends the transaction, and asks again
// later. Transaction locks, unlike session locks, work behind a transaction-mode pooler.

/** The result of a step. */
export interface StepReport {
  /** File name of the applied migration; null if no migration is pending. */
  readonly name: string | null
  /** Number of the newest migration that the database holds. */
  readonly current: number
}

/** Limits for running steps. */
export interface StepOptions {
  /** End of all waiting, on the monotonic clock, in milliseconds. */
  readonly deadlineAt: number
  readonly logger: Logger
}

/** Maximum wait for a lock, in ms: meanwhile all later statements on the table wait behind the migration. */
export const LOCK_TIMEOUT_MS = 1000
/** Interval between two polls of the locks, in ms; shorter waits go unnoticed. */
const POLL_INTERVAL_MS = 300
const PAUSE_MS = 250
const PAUSE_MAX_MS = 8000
/** Maximum pause for the blocking transactions, in ms. Then the next try is made in any case. */
const PAUSE_FOR_BLOCKERS_MS = 15_000
const WARN_EVERY_MS = 5000

/** Creates the step that applies the first pending migration, with as many tries as the deadline allows. */
export function createMigrationStep(
  sql: Sql,
  migrations: readonly Migration[],
  watch: LockWatch,
  { deadlineAt, logger }: StepOptions,
): () => Promise<StepReport> {
  const warn = createWarning(logger)

  // Read committed, regardless of the database's default: each statement must see the commits of other processes.
  const begin = <Result>(work: (tx: TransactionSql) => Promise<Result>): Promise<Result> =>
    sql.begin('isolation level read committed read write', async (tx) => {
      await prepareTransaction(tx)
      return work(tx)
    }) as Promise<Result>

  async function tryNext(tries: Tries): Promise<StepReport | 'busy'> {
    const { next: pending, current } = await begin((tx) => readPending(tx, migrations))
    if (pending === undefined) return { name: null, current }
    // A new transaction, because the transaction with the lock must query the table of migrations only after locking.
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
      if (next.isConcurrent) await buildConcurrently(next, watch, { deadlineAt, warn })
      else await observed(watch, `pid = ${pid}`, tries, () => applyText(tx, next))
      // Values are part of the statement's text, because a host's type serializers could change parameters.
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

  /** Pauses because another process migrates. */
  async function pauseForOther({ count }: Tries): Promise<void> {
    // The holder only serves the messages: without a second connection for this query the wait goes on.
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

  /** Pauses because another session's transaction is in the way, and lets all other sessions through meanwhile. */
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

/** The tries of a step. */
interface Tries {
  count: number
  /** The migration of the latest try. */
  migration: string | null
  /** The latest wait that a poll found in this try. */
  wait: LockWait | null
}

/** Selects the session that holds the advisory lock. pg_locks splits the key over two columns. */
const HOLDER = `
  select pid::text from pg_catalog.pg_locks
   where locktype = 'advisory' and granted and objsubid = 1
     and classid::bigint = ${MIGRATION_LOCK_KEY} >> 32 and objid::bigint = ${MIGRATION_LOCK_KEY} & 4294967295
     and database = (select oid from pg_catalog.pg_database where datname = current_database())`

/** Creates a warning that is logged only every few seconds. */
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
  // A host's deadlines must not end a migration; transaction_timeout exists since PostgreSQL 17. With an empty search_path a
  // migration's name without a schema is an error, and cannot mean a table of the host.
  await tx.unsafe(`
    select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings
     where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
    set local lock_timeout = ${LOCK_TIMEOUT_MS};
    set local client_min_messages = warning;
    set local search_path = ''`)
}

/** @throws Error before the first file, which would leave an error that is hard to understand */
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
  // Instead of to_regclass, whose "not found" a session remembers even after another session's commit. Reading these catalogs
  // locks tables, and with the first lock on a table a session takes note of other commits.
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
  // Instead of "if not exists", which needs the right to create schemas even if an administrator has created this schema.
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

/** Runs the work, and meanwhile polls the lock waits of the working session. */
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
