import type { Fragment, ISql, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { type Names, readFlag, readTimeout, readWhole, rejectUnknown } from '../../base/options.ts'
import { sleep, withDeadline } from '../../base/time.ts'
import type { ConnectionUse } from '../../business-store.ts'
import { createSchemaFaults, type ExplainError } from '../schema/schema-fault.ts'
import { ifHereIn } from '../statements/here.ts'
import { createConnections } from './connections.ts'
import { createDrain } from './drain.ts'
import {
  isConflict,
  isConnectionLost,
  isReadOnlyServer,
  isUnavailable,
  unavailable,
} from './driver-faults.ts'
import { inTransaction } from './plain-transaction.ts'
import { createPool, type RawRows, type Statement, type StatementTime } from './pool.ts'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'
import { createTurns, type Share } from './turns.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

// This file is over 250 lines because a statement's turn, deadline and retries are easier to follow in one place.

/** Options for the store's connections and statements. */
export interface DatabaseOptions {
  /**
   * Maximum number of connections, which are opened on demand. With 4 or more, an organization can use up to half of
   * them, and a quarter is reserved for organizations that have none. Defaults to the `max` of the connection string or
   * pool, or 10.
   */
  maxConnections?: number | undefined
  /**
   * If `true`, statements are prepared. Set this to `false` for a pooler without support for prepared statements
   * (PgBouncer before 1.21). Defaults to the `prepare` of the connection string or pool, or `true`.
   */
  prepare?: boolean | undefined
  /**
   * If `true`, each connection has its own server session. Set this to `false` for a pooler in transaction mode.
   * Without sessions, the store can't set server-side timeouts or receive notifications from other processes. Defaults
   * to `true`, unless the connection string has `pgbouncer=true`.
   */
  sessions?: boolean | undefined
  /** Statement timeout in milliseconds. Defaults to 5000. */
  statementTimeoutMs?: number | undefined
  /**
   * Maximum number of running and waiting statements in this process. Beyond this, a new statement is either rejected
   * immediately or replaces a waiting one from the organization that has the most. The same number of requests may also
   * be waiting for a batch. Defaults to 1000.
   */
  maxPending?: number | undefined
}

/** The share used by statements across organizations, mainly the delivery loop's. */
const OWN_WORK = Symbol('own work')

/** A row of text columns, by position. */
export type TextRow = readonly (string | null)[]

/** A row of columns as raw bytes, by position. */
export type ByteRow = readonly (Buffer | null)[]

/**
 * Builds a statement that returns the answer tag in its last column. The tag proves that the result belongs to this
 * statement. If a driver mixed up two results, one organization could otherwise see another organization's data.
 *
 * Columns are strings with unique names, because many drivers return rows as objects.
 *
 * @param answerTag the tag as a string
 */
export type BuildTagged = (sql: ISql, answerTag: string) => Statement

/** Like {@link BuildTagged}, but for statements built with the template, with the tag as a fragment. */
export type BuildStatement = (sql: ISql, answerTag: Fragment) => Statement

/** Adds the answer tag. If `share` is an organization, the statement fails once it has moved to another shard. */
export function withTagColumn(build: BuildStatement, share: Share | null): BuildTagged {
  return (sql, answerTag) => {
    const tag = sql`${answerTag}::text`
    const checked = typeof share === 'string' ? ifHereIn(sql, share, tag) : tag
    return build(sql, sql`${checked} as answer_tag`)
  }
}

/** A statement's timeouts, in milliseconds. */
export interface StatementWait {
  /** Extra time to wait for a lock. Defaults to 0. */
  readonly lockMs?: number | undefined
  /** Maximum time the caller waits before the statement is abandoned. Unlimited by default. */
  readonly atMostMs?: number | undefined
  /** Response timeout. Closes the connection but doesn't mark the server as failed. Unlimited by default. */
  readonly answerMs?: number | undefined
  /** If `true`, the statement isn't retried after its result was lost. */
  readonly isOnce?: boolean | undefined
}

/** Runs record statements on the store's connections or in the host's transaction. */
export interface RecordDatabase {
  /**
   * Runs a statement and returns the only row of its result as strings.
   *
   * Almost all of our statements are idempotent. A statement is retried once after a lost connection, and until its
   * timeout after a conflict with another transaction.
   *
   * @param share the organization whose connections are used, or `null`
   * @throws `BusinessApiError` with code `store_unavailable` if the database can't be reached, doesn't respond in time,
   * or too many statements are waiting
   */
  rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow>
  /** Like {@link RecordDatabase.rowFor}, but for statements with a fixed text. Returns the columns as bytes. */
  bytesFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<ByteRow>
  /** Wakes up the delivery loops after a statement made deliveries due. */
  readonly wakeUp: Pick<WakeUpSignal, 'signal'>
}

/** Runs statements for every part of the store. */
export interface Database extends RecordDatabase {
  /** Runs a statement across organizations. See {@link RecordDatabase.rowFor}. */
  row(build: BuildStatement): Promise<TextRow>
  /**
   * Like {@link RecordDatabase.bytesFor}, but for statements that return several rows, each with the answer tag. A
   * failed statement's connection is closed, because the driver would add the rows received so far to its next result.
   */
  rowsFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<readonly ByteRow[]>
  readonly limits: DatabaseLimits
  readonly wakeUp: WakeUpSignal
  /** Explains errors of statements that ran in the host's transaction. */
  readonly explain: ExplainError
  /** See `PostgresStore.hold`. */
  hold(name: string): Promise<() => void>
  /** See `PostgresStore.beginRequest`. */
  beginRequest(): () => void
  /** See `BusinessApiStore.connectionUse`. */
  connectionUse(): ConnectionUse
  /** See `PostgresStore.close`. */
  close(options?: CloseOptions): Promise<void>
}

/** A database's resolved {@link DatabaseOptions}. */
export interface DatabaseLimits {
  readonly maxConnections: number
  readonly maxPending: number
  readonly statementTimeoutMs: number
}

/** Options for closing a store. */
export interface CloseOptions {
  /** Maximum time to wait for running requests and statements, in milliseconds. Defaults to 4000. */
  timeoutMs?: number | undefined
}

/** Keys of {@link DatabaseOptions}. */
export const DATABASE_NAMES: Names<DatabaseOptions> = {
  maxConnections: true,
  prepare: true,
  sessions: true,
  statementTimeoutMs: true,
  maxPending: true,
}

/**
 * Creates a database with its own connections, opened on demand.
 *
 * @param source a connection string, or a postgres.js pool from which the options are taken
 * @throws `TypeError` if the source is neither a connection string nor a pool; `RangeError` if an option is out of
 * range
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  rejectUnknown(options, DATABASE_NAMES)
  const readable = readSource(source)
  const prepare = options.prepare === undefined ? undefined : readFlag('prepare', options.prepare)
  const sessions = readFlag('sessions', options.sessions, !readable.isTransactionPooled)
  const { maxConnections: given = readable.maxConnections } = options
  const maxConnections = readWhole('maxConnections', given, 10)
  const statementTimeoutMs = readWhole('statementTimeoutMs', options.statementTimeoutMs, 5000)
  const maxPending = readWhole('maxPending', options.maxPending, 1000)
  const servers = createServers(readable, { prepare, sessions, statementTimeoutMs })
  const connections = createConnections(servers, maxConnections)
  const turns = createTurns(maxConnections, maxPending)
  const pool = createPool(connections, turns)
  const drain = createDrain()
  let closing: Promise<void> | undefined
  let tags = 0

  async function send(share: Share, build: BuildTagged, time: StatementTime): Promise<readonly ByteRow[]> {
    const answerTag = String(++tags)
    // The tag is checked before the connection is reused, so a connection with mixed-up results gets closed.
    return await pool.run(
      share,
      (sql) => build(sql, answerTag),
      time,
      (rows) => readAnswers(rows, answerTag),
    )
  }

  async function sendUntil(
    share: Share,
    build: BuildTagged,
    time: StatementTime,
    mayRepeat: boolean,
    attempt = 1,
  ): Promise<readonly ByteRow[]> {
    const begunAt = performance.now()
    try {
      return await send(share, build, time)
    } catch (error) {
      const leftMs = time.timeoutMs - (performance.now() - begunAt)
      const hasFailedServer = isConnectionLost(error) || isReadOnlyServer(error)
      const isWorthwhile = isConflict(error) || (hasFailedServer && mayRepeat && attempt === 1)
      if (!isWorthwhile || leftMs <= 0) throw error
      if (isConflict(error)) await sleep(Math.random() * Math.min(attempt, CONFLICT_PAUSE_MAX_MS))
      return sendUntil(share, build, { ...time, timeoutMs: leftMs }, mayRepeat, attempt + 1)
    }
  }

  const explain = createSchemaFaults(async (build) => {
    const time = { timeoutMs: statementTimeoutMs, answerMs: UNLIMITED, hasRows: false }
    return toText(onlyRow(await send(OWN_WORK, withTagColumn(build, null), time)))
  })

  async function ask(
    share: Share | null,
    build: BuildTagged,
    { lockMs = 0, atMostMs = UNLIMITED, answerMs = UNLIMITED, isOnce = false }: StatementWait = {},
    hasRows = false,
  ): Promise<readonly ByteRow[]> {
    const end = drain.beginStatement()
    try {
      return await sendUntil(
        share ?? OWN_WORK,
        build,
        { timeoutMs: Math.min(statementTimeoutMs + lockMs, atMostMs), answerMs, hasRows },
        !isOnce,
      )
    } catch (error) {
      throw isUnavailable(error) || isConflict(error) ? unavailable(error) : await explain(error)
    } finally {
      end()
    }
  }

  async function bytesFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<ByteRow> {
    return onlyRow(await ask(share, build, wait))
  }

  async function rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow> {
    return toText(await bytesFor(share, withTagColumn(build, share), wait))
  }

  const row = (build: BuildStatement): Promise<TextRow> => rowFor(null, build)

  // Don't wait for the disk, since notifications don't survive a crash anyway.
  const notify = (channel: string): Promise<unknown> =>
    row(
      (sql, answerTag) =>
        sql`select set_config('synchronous_commit', 'off', true), pg_notify(${channel}::text, '')::text, ${answerTag}`,
    )
  const wakeUp = createWakeUpSignal(notify, sessions ? servers.open : null)

  function hold(name: string): Promise<() => void> {
    return new Promise((resolve, reject) => {
      inTransaction(source, 'read committed', async (sql) => {
        // While it waits, the server doesn't notice that the connection was closed.
        await sql.unsafe(`set local lock_timeout = ${statementTimeoutMs + HOLD_EXTRA_MS}`)
        const lock = sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`
        await withDeadline(lock, statementTimeoutMs, () => {
          throw storeUnavailable(
            `Cannot take a lock because another process did not release it within ${statementTimeoutMs} ms`,
          )
        })
        await new Promise<void>((release) => resolve(release))
      }).catch((error) => reject(isUnavailable(error) ? unavailable(error) : error))
    })
  }

  async function close(timeoutMs: number): Promise<void> {
    await drain.finish(timeoutMs)
    wakeUp.close()
    await connections.close()
  }

  return {
    rowFor,
    bytesFor,
    row,
    rowsFor: (share, build, wait) => ask(share, build, wait, true),
    limits: { maxConnections, maxPending, statementTimeoutMs },
    wakeUp,
    explain,
    hold,
    beginRequest: drain.beginRequest,
    connectionUse: turns.use,
    close(options) {
      const timeoutMs = readTimeout(options, CLOSE_MS)
      closing ??= close(timeoutMs)
      return closing
    },
  }
}

/** Reads a result's rows. If the last column isn't the expected tag, fails the same way as a lost connection. */
export function readAnswers(rows: RawRows, answerTag: string): readonly ByteRow[] {
  // In the host's transaction, the pool's `transform` may change rows, but nearly always keeps the column order. If the
  // previous statement failed after some rows, the driver leaves holes before the rows of this result.
  const answers = Array.from(rows, (row) => Object.values(row ?? []))
  if (answers.length === 0 || answers.some((row) => row.at(-1)?.toString('latin1') !== answerTag))
    throw mixedUp()
  return answers
}

/** Returns the row of a single-row result. */
export function onlyRow(rows: readonly ByteRow[]): ByteRow {
  return rows[0] as ByteRow
}

/** Decodes a row's columns as UTF-8. */
export function toText(row: ByteRow): TextRow {
  return row.map((column) => column?.toString('utf8') ?? null)
}

/** Has the code of a lost connection so that the statement is retried. */
function mixedUp(): Error {
  return Object.assign(new Error('PostgreSQL returned the result of another statement'), {
    code: 'CONNECTION_CLOSED',
  })
}

const UNLIMITED = Number.POSITIVE_INFINITY

/** Default timeout for closing a store in ms, longer than an unobstructed request takes. */
const CLOSE_MS = 4000

/** How much longer than the caller the server waits for a lock of `hold`, in ms. */
const HOLD_EXTRA_MS = 1000

/** Maximum delay after a conflict, in ms. Random, so conflicting statements don't collide again. */
const CONFLICT_PAUSE_MAX_MS = 20
