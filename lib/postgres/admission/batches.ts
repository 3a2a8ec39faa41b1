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

// This file is over 250 lines because a request's path through or around a batch is easier to follow in one place.

/**
 * Runs a statement for an organization's request. `values` is called once, when the statement is sent. `records` is the
 * maximum number of records in the requested page, 0 by default. Throws the same errors as {@link
 * RecordDatabase.rowFor}.
 */
export type AskForRequest = <Values extends object, Column extends string, Bytes extends Column>(
  organizationId: string,
  statement: BatchStatement<Values, Column, Bytes>,
  values: () => Values & { readonly [Name in keyof Values]: Value },
  records?: number,
) => Promise<ResultColumns<Column, Bytes>>

/** Limits the number of waiting requests, and includes them in {@link Batches.connectionUse}. */
export interface WaitLimits {
  /** Throws `store_unavailable` if the number of waiting requests, `pending`, has reached `maxPending`. */
  rejectBeyond(pending: number): void
  /** Creates the error for a request that timed out after `waitedMs` milliseconds, before its statement was sent. */
  timedOut(waitedMs: number): BusinessApiError
  /** Registers a counter for requests that are waiting elsewhere. */
  countWaiting(count: () => number): void
}

/** Runs statements for requests. */
export interface Asking {
  readonly ask: AskForRequest
  /** `null` in the host's transaction, where requests never wait for each other. */
  readonly limits: WaitLimits | null
  /** Returns `true` if there's capacity to spare for a speculative statement. */
  hasRoom(): boolean
  /** Maximum time a request may wait for its result, in ms. */
  readonly timeoutMs: number
}

/** Runs one statement for all requests that are waiting at the same time. */
export interface Batches extends Asking {
  /** Returns connection stats, including requests waiting for a batch. */
  connectionUse(): ConnectionUse
}

/** The connection share used by all batches. */
const BATCHES = Symbol('batches')
/** Maximum number of requests per batch. A full batch takes PostgreSQL a few milliseconds. */
const REQUESTS_MAX = 16
/** A batch is full once its pages add up to this many records, which take PostgreSQL a few milliseconds. */
const RECORDS_MAX = 800
/** Batch timeout in ms, many times what a batch usually takes. */
const BATCH_MS = 500
/** Time for which requests bypass batching after a batch of the same statement has failed, in ms. */
const ALONE_MS = 1000

interface Waiting {
  readonly text: string
  readonly organizationId: string
  /** Returns the parameters when the statement is sent. */
  parameters(): readonly Value[]
  readonly records: number
  /** Monotonic timestamp, in milliseconds. */
  readonly askedAt: number
  answer(row: ByteRow): void
  reject(error: unknown): void
}

/** Rejection reason for a request that must be run separately. */
const ASK_ALONE = Symbol('ask alone')

/** Runs a separate statement for each request in the host's transaction. */
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
 * Creates a store's batches, which use up to a quarter of its connections. If one of those is free, a request is sent
 * right away, along with everything else from the same turn of the event loop. Otherwise requests wait, and
 * organizations take turns. The next batch takes the first request in line plus all others that need the same
 * statement. So the higher the load, the more requests share a statement, a round trip and two socket writes.
 *
 * A slow request can delay its batch by up to 500 ms. A batch that fails or takes longer is abandoned, and each of its
 * requests runs separately on its organization's connections in the time it has left. So do new requests for the same
 * statement for the next second, since a table may be locked. Batched statements never wait for row locks.
 */
export function createBatches(database: Database): Batches {
  const { maxConnections, maxPending, statementTimeoutMs } = database.limits
  const batchesMax = Math.max(1, Math.floor(maxConnections / 4))
  const roomMax = Math.floor(maxPending / 32)
  const waiting = createFairQueue<string, Waiting>()
  /** The waiting requests by SQL text. */
  const waitingFor = new Map<string, FairQueue<string, Waiting>>()
  /** When batching resumes, by SQL text. */
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

  /** Sends all waiting requests to their organizations' connections, since no connection was available in time. */
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

/** Index of the column before the answer tag. */
const PLACE = -2
