import { randomUUID } from 'node:crypto'
import postgres, { type Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { sleep } from '../../base/time.ts'
import { readIndexStatements } from './index-statements.ts'
import { describeWait, type LockWait, type LockWatch } from './lock-watch.ts'
import type { Migration } from './migrations.ts'

// Migrations marked `concurrent` have statements that PostgreSQL doesn't allow inside a transaction. They block neither
// readers nor writers. Building an index waits for all older transactions, but nothing waits for the build.

/** When to give up, and where warnings go. */
export interface BuildOptions {
  /** When to stop waiting for other transactions, in ms on the monotonic clock. */
  readonly deadlineAt: number
  readonly warn: (message: string) => void
}

const POLL_INTERVAL_MS = 500

/**
 * Runs a migration's statements outside a transaction. Keeps an index that an earlier attempt completed, but drops and
 * rebuilds an incomplete one. The caller must make sure that no other process does this at the same time.
 *
 * @throws BusinessApiError `store_unavailable` if an older transaction is still running at the deadline
 * @throws Error with the file name, and PostgreSQL's error as `cause`
 */
export async function buildConcurrently(
  migration: Migration,
  watch: LockWatch,
  options: BuildOptions,
): Promise<void> {
  const statements = readIndexStatements(migration.name, migration.text)
  const builder = await watch.open()
  try {
    for (const { kind, index, text } of statements) {
      const run = (statement: string): Promise<void> =>
        runWatched(builder, watch, migration.name, statement, options)
      if (kind === 'create' && (await isFinished(index, run, watch, migration.name, options))) continue
      await run(text)
    }
  } finally {
    await builder.end({ timeout: 1 })
  }
}

/** Returns `true` if the index is complete. Drops an incomplete index unless another session is still building it. */
async function isFinished(
  index: string,
  run: (statement: string) => Promise<void>,
  watch: LockWatch,
  name: string,
  { deadlineAt, warn }: BuildOptions,
): Promise<boolean> {
  for (;;) {
    const [[isValid = null, builder = null] = []] = await watch.read(`
      select i.indisvalid::text, (
               select p.pid::text from pg_catalog.pg_stat_progress_create_index p where p.index_relid = i.indexrelid limit 1
             )
        from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass('${index}')`)
    if (isValid === null) return false
    if (isValid === 'true') return true
    if (builder === null) {
      await run(`drop index concurrently if exists ${index}`)
      return false
    }
    // A crashed process's session may keep building until PostgreSQL notices that the connection is closed.
    if (performance.now() >= deadlineAt) {
      throw storeUnavailable(
        `Cannot apply migration '${name}': session ${builder} is still building ${index}; wait until it has finished, then migrate again`,
      )
    }
    warn(`Migration '${name}' waits for session ${builder}, which builds ${index}`)
    await sleep(POLL_INTERVAL_MS)
  }
}

/** Runs a statement, logs warnings about blocking sessions, and cancels the statement at the deadline. */
async function runWatched(
  builder: Sql,
  watch: LockWatch,
  name: string,
  statement: string,
  { deadlineAt, warn }: BuildOptions,
): Promise<void> {
  // Behind a pooler, the statement's text is the only way to identify the session.
  const mark = `/* business-api-kit ${randomUUID()} */`
  const session = `query like '${mark}%'`
  let lastWait: LockWait | null = null
  let isOver = false

  async function observe(): Promise<void> {
    while (!isOver) {
      await sleep(POLL_INTERVAL_MS, { keepsAlive: false })
      const wait = isOver ? null : await watch.readWait(session).catch(() => null)
      if (wait === null || wait.blockers.length === 0) continue
      lastWait = wait
      warn(`Migration '${name}' builds an index, and blocks nothing meanwhile: ${describeWait(wait)}`)
      if (performance.now() < deadlineAt) continue
      await watch.read(`select pg_catalog.pg_cancel_backend(${wait.pid})::text`).catch(() => {})
    }
  }

  const observing = observe()
  try {
    await builder.unsafe(`${mark} ${statement}`)
  } catch (cause) {
    throw failureOf(name, cause, lastWait, performance.now() >= deadlineAt)
  } finally {
    isOver = true
    await observing
  }
}

const QUERY_CANCELED = '57014'

function failureOf(name: string, cause: unknown, wait: LockWait | null, isLate: boolean): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const isCanceled = cause instanceof postgres.PostgresError && cause.code === QUERY_CANCELED
  if (isCanceled && isLate) {
    return storeUnavailable(
      `Cannot apply migration '${name}': ${describeWait(wait)}; then migrate again`,
      cause,
    )
  }
  const advice = isCanceled
    ? '; if the user has a statement_timeout and you use a pooler, connect directly, or alter role … set statement_timeout = 0'
    : ''
  return new Error(`Cannot apply migration '${name}': ${reason}${advice}`, { cause })
}
