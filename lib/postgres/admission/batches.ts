import { type BusinessApiError, storeUnavailable } from '../../base/errors.ts'
import { createFairQueue, type FairQueue } from '../../base/fair-queue.ts'
import type { ConnectionUse } from '../../business-store.ts'
import type { ByteRow, Database, RecordDatabase } from '../connection/database.ts'
import {
  arrayOf,
  askAlone,
  type BatchStatement,
  boundValues,
  type ResultColumns,
  readColumns,
  type Value,
} from '../statements/statement.ts'

// Longer than 250 lines: the way of a request through a batch, and past it, is read as a whole.

/**
 * Asks a statement for a request of an organization.
 *
 * @param values gives the values when the statement is sent; called once
 * @param records the records of the request's page, at most. Default 0
 * @throws as {@link RecordDatabase.rowFor}
 */
export type AskForRequest = <Values extends object, Column extends string, Bytes extends Column>(
  organizationId: string,
  statement: BatchStatement<Values, Column, Bytes>,
  values: () => Values & { readonly [Name in keyof Values]: Value },
  records?: number,
) => Promise<ResultColumns<Column, Bytes>>

/** The limits of requests that wait, and the counts for {@link Batches.connectionUse}. */
export interface WaitLimits {
  /**
   * Rejects a request beyond `maxPending`.
   *
   * @param pending the requests that wait
   * @throws with code `store_unavailable`
   */
  rejectBeyond(pending: number): void
  /** Creates the error of a request whose time was over before its statement was sent. @param waitedMs milliseconds */
  timedOut(waitedMs: number): BusinessApiError
  /** Adds requests that wait elsewhere to those that wait for a batch. */
  countWaiting(count: () => number): void
}

/** Asks statements for requests. */
export interface Asking {
  readonly ask: AskForRequest
  /** Null in a transaction of the host, where no request waits for others. */
  readonly limits: WaitLimits | null
  /** Returns whether so few requests wait that a statement may be sent before it is known to be needed. */
  hasRoom(): boolean
  /** How long a request may wait for its result, in ms. */
  readonly timeoutMs: number
}

/** Asks a statement for the requests that wait at the same time. */
export interface Batches extends Asking {
  /** The use of the connections, with the requests that wait for a batch. */
  connectionUse(): ConnectionUse
}

/** The share of the connections that all batches have together. */
const BATCHES = Symbol('batches')
/** The requests of a batch at most: some milliseconds of PostgreSQL. */
const REQUESTS_MAX = 16
/** Maximum number of records in a batch before a request is added: a few ms of PostgreSQL. */
const RECORDS_MAX = 800
/** Timeout of a batch, in ms: many times its usual duration. */
const BATCH_MS = 500
/** How long requests run alone after a batch of their statement has failed, in ms. */
const ALONE_MS = 1000

/** A request that waits for a batch. */
interface Waiting {
  readonly text: string
  readonly organizationId: string
  /** Gives the parameters when the statement is sent. */
  parameters(): readonly Value[]
  /** The records of the page, at most. */
  readonly records: number
  /** On the monotonic clock, in milliseconds. */
  readonly askedAt: number
  answer(row: ByteRow): void
  reject(error: unknown): void
}

/** Stands for an error: the request must run alone. */
const ASK_ALONE = Symbol('ask alone')

/** Asks for each request by a statement of its own, in a transaction of the host. */
export function askEachAlone(database: RecordDatabase): Asking {
  return {
    ask(organizationId, statement, values) {
      const bound = boundValues(statement, values())
      return askAlone(database, organizationId, statement, () => bound)
    },
    limits: null,
    hasRoom: () => false,
    timeoutMs: Number.POSITIVE_INFINITY,
  }
}

/**
 * Creates the batches of a store. A quarter of the connections carries batches. A request that finds a free place among these is sent
 * without a wait, together with the requests that came in the same turn of the event loop; the others wait in round robin of the
 * organizations. The next batch takes the first request in turn, with all requests that wait for the same statement. So the more
 * requests come, the more share a statement, a round trip and two socket writes.
 *
 * A request can delay the rest of its batch for up to half a second: a batch that fails or takes longer is abandoned, and each request
 * runs alone in the remaining time, on its organization's connections. So are all requests for that statement during the next second,
 * because a table may be locked. Statements of batches wait for no locked row.
 */
export function createBatches(database: Database): Batches {
  const { maxConnections, maxPending, statementTimeoutMs } = database.limits
  const batchesMax = Math.max(1, Math.floor(maxConnections / 4))
  const roomMax = Math.floor(maxPending / 32)
  const waiting = createFairQueue<string, Waiting>()
  /** The same requests by the text of the statement. */
  const waitingFor = new Map<string, FairQueue<string, Waiting>>()
  /** The times until which requests are asked alone, by the text of the statement. */
  const aloneUntil = new Map<string, number>()
  let isScheduled = false
  let underWay = 0
  let refused = 0
  let timedOut = 0
  const waitingElsewhere: (() => number)[] = []

  function queueFor(text: string): FairQueue<string, Waiting> {
    const known = waitingFor.get(text)
    if (known) return known
    const queue = createFairQueue<string, Waiting>()
    waitingFor.set(text, queue)
    return queue
  }

  function full(): BusinessApiError {
    refused++
    return storeUnavailable(`Cannot use PostgreSQL because ${maxPending} requests are waiting already`)
  }

  function late(waitedMs: number): BusinessApiError {
    timedOut++
    return storeUnavailable(`Cannot use PostgreSQL because a request has waited for ${waitedMs} ms`)
  }

  function makeRoom(organizationId: string): void {
    if (waiting.size < maxPending) return
    const displaced = waiting.displace(organizationId)
    if (!displaced) throw full()
    queueFor(displaced.text).remove(displaced.organizationId, displaced)
    displaced.reject(full())
  }

  function add(request: Waiting): void {
    makeRoom(request.organizationId)
    waiting.add(request.organizationId, request)
    queueFor(request.text).add(request.organizationId, request)
    if (isScheduled || underWay >= batchesMax) return
    isScheduled = true
    setImmediate(start)
  }

  function start(): void {
    isScheduled = false
    while (underWay < batchesMax) {
      const first = waiting.shift()
      if (!first) return
      const queue = queueFor(first.text)
      queue.remove(first.organizationId, first)
      const batch = completeBatch(first, queue)
      if (batch.length > 0) void send(first.text, batch)
    }
  }

  function completeBatch(first: Waiting, queue: FairQueue<string, Waiting>): Waiting[] {
    const batch: Waiting[] = []
    let records = 0
    for (let next: Waiting | undefined = first; next; next = queue.shift()) {
      waiting.remove(next.organizationId, next)
      if (leftMsOf(next) > 0) {
        batch.push(next)
        records += next.records
      } else {
        next.reject(late(statementTimeoutMs))
      }
      if (batch.length === REQUESTS_MAX || records >= RECORDS_MAX) break
    }
    return batch
  }

  /** Milliseconds that a request may still take. */
  function leftMsOf({ askedAt }: Pick<Waiting, 'askedAt'>): number {
    return statementTimeoutMs - (performance.now() - askedAt)
  }

  async function send(text: string, batch: readonly Waiting[]): Promise<void> {
    underWay++
    let wasSent = false
    try {
      const requests = batch.map(({ parameters }) => parameters())
      const arrays = (requests[0] ?? []).map((_, index) =>
        arrayOf(requests.map((parameters) => parameters[index] ?? null)),
      )
      const atMostMs = Math.max(1, Math.min(...batch.map(leftMsOf)))
      const rows = await database.rowsFor(
        BATCHES,
        (sql, answerTag) => {
          wasSent = true
          return sql.unsafe(text, [...arrays, answerTag], { prepare: true })
        },
        { atMostMs, answerMs: BATCH_MS, isOnce: true },
      )
      if (rows.length !== batch.length)
        throw new Error('PostgreSQL returned no result for a request of a batch')
      for (const row of rows) batch[Number(row.at(PLACE)) - 1]?.answer(row)
    } catch {
      aloneUntil.set(text, performance.now() + ALONE_MS)
      for (const { reject } of batch) reject(ASK_ALONE)
      if (!wasSent) giveUpWaiting()
    } finally {
      underWay--
      start()
    }
  }

  /** Leaves the waiting requests to the turns at the connections: no connection was free in time, or none can be opened. */
  function giveUpWaiting(): void {
    for (let next = waiting.shift(); next; next = waiting.shift()) next.reject(ASK_ALONE)
    waitingFor.clear()
  }

  function isAskedAlone(text: string): boolean {
    const until = aloneUntil.get(text)
    if (until === undefined) return false
    if (performance.now() < until) return true
    aloneUntil.delete(text)
    return false
  }

  const askInBatch = (request: Omit<Waiting, 'answer' | 'reject'>): Promise<ByteRow> =>
    new Promise((answer, reject) => {
      add({ ...request, answer, reject })
    })

  return {
    async ask(organizationId, statement, values, records = 0) {
      const { text, mustAskAlone } = statement
      let read: readonly Value[] | undefined
      const parameters = (): readonly Value[] => {
        read ??= boundValues(statement, values())
        return read
      }
      const askedAt = performance.now()
      const alone = () =>
        askAlone(database, organizationId, statement, parameters, {
          atMostMs: Math.max(1, leftMsOf({ askedAt })),
        })
      if (isAskedAlone(text)) return alone()
      try {
        const row = await askInBatch({ text, organizationId, parameters, records, askedAt })
        const answer = readColumns(statement, row)
        if (!mustAskAlone?.(answer)) return answer
      } catch (error) {
        if (error !== ASK_ALONE) throw error
      }
      return alone()
    },
    limits: {
      rejectBeyond(pending) {
        if (pending >= maxPending) throw full()
      },
      timedOut: late,
      countWaiting: (count) => waitingElsewhere.push(count),
    },
    timeoutMs: statementTimeoutMs,
    hasRoom: () => waiting.size < roomMax,
    connectionUse() {
      const use = database.connectionUse()
      return {
        ...use,
        waiting: waitingElsewhere.reduce((sum, count) => sum + count(), use.waiting + waiting.size),
        refused: use.refused + refused,
        timedOut: use.timedOut + timedOut,
      }
    },
  }
}

/** The column before the answer tag. */
const PLACE = -2
