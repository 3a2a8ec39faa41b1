import { isStoreUnavailable, storeUnavailable } from '../base/errors.ts'
import { createFairQueue, type FairQueue } from '../base/fair-queue.ts'
import type { ConnectionUse } from '../business-store.ts'
import type { ByteRow, Database, RecordDatabase } from './connection/database.ts'
import type { ReadDistribution } from './distributed/state.ts'
import {
  type Answer,
  arrayOf,
  ask,
  type BatchStatement,
  readColumns,
  type Value,
} from './statements/statement.ts'

/** Asks a statement for a request of an organization. @throws as {@link RecordDatabase.rowFor} */
export type AskForRequest = <Values extends object, Column extends string, Bytes extends Column>(
  organizationId: string,
  statement: BatchStatement<Values, Column, Bytes>,
  values: Values & { readonly [Name in keyof Values]: Value },
) => Promise<Answer<Column, Bytes>>

/** Asks a statement for the requests that wait at the same time. */
export interface Batches {
  readonly ask: AskForRequest
  /** The use of the connections, with the requests that wait for a batch. */
  connectionUse(): ConnectionUse
}

/** The share of the connections that the batches have together. */
const SHARE = Symbol('batches')
/** The requests of a batch at most. Larger batches saved nothing in the benchmark. */
const REQUESTS_MAX = 16
/** The records of a batch from which on no request is added: some milliseconds of PostgreSQL. */
const RECORDS_MAX = 800

/** A request that waits for a batch. */
interface Waiting {
  readonly organizationId: string
  readonly parameters: readonly Value[]
  readonly records: number
  /** On the monotonic clock, in milliseconds. */
  readonly askedAt: number
  answer(row: ByteRow): void
  reject(error: unknown): void
}

/** In place of an error: the batch has failed, which may be the fault of another request. */
const ASK_ALONE = Symbol('ask alone')

/** Asks for each request by a statement of its own, in a transaction of the host. */
export function askEachAlone(database: RecordDatabase): AskForRequest {
  return (organizationId, { alone }, values) => ask(database, organizationId, alone, values)
}

/**
 * Creates the batches of a store. A quarter of the connections carries batches. A request that finds a free place among these is sent
 * without a wait, together with the requests that came in the same turn of the event loop; the others wait, and the next batch takes
 * them along, in round robin of the organizations. So a request waits for two batches at most while the process is not overloaded,
 * and a statement, its round trip and its two writes to sockets are shared by more requests the more requests come.
 *
 * No request waits for the lock of another: the statements of batches read, or pass over what is locked. A batch that fails is asked
 * for each request alone. On a distributed database each request is asked alone, because a statement must name a single organization
 * there.
 */
export function createBatches(database: Database, isDistributed: ReadDistribution): Batches {
  const { maxConnections, maxPending, statementTimeoutMs } = database.limits
  const batchesMax = Math.max(1, Math.floor(maxConnections / 4))
  /** The waiting requests by the text of the statement, in the order of the turns of the statements. */
  const queues = new Map<string, FairQueue<string, Waiting>>()
  const alone = askEachAlone(database)
  let isOneServer = false
  let isScheduled = false
  let underWay = 0
  let waiting = 0
  let refused = 0
  let timedOut = 0

  function longestQueue(): FairQueue<string, Waiting> | undefined {
    return [...queues.values()].sort((one, other) => other.size - one.size)[0]
  }

  function makeRoom(organizationId: string): void {
    if (waiting < maxPending) return
    const gives = longestQueue()?.displace(organizationId)
    refused++
    const full = storeUnavailable(`Cannot use PostgreSQL because ${maxPending} requests are waiting already`)
    if (!gives) throw full
    waiting--
    gives.reject(full)
  }

  function add(text: string, request: Waiting): void {
    makeRoom(request.organizationId)
    const queue = queues.get(text) ?? createFairQueue()
    queue.add(request.organizationId, request)
    queues.set(text, queue)
    waiting++
    if (isScheduled || underWay >= batchesMax) return
    isScheduled = true
    setImmediate(start)
  }

  function start(): void {
    isScheduled = false
    while (underWay < batchesMax) {
      const [text, queue] = queues.entries().next().value ?? []
      if (text === undefined || queue === undefined) return
      const batch = takeFrom(queue)
      // The end of the map is the end of the round.
      queues.delete(text)
      if (queue.size > 0) queues.set(text, queue)
      if (batch.length > 0) void send(text, batch)
    }
  }

  function takeFrom(queue: FairQueue<string, Waiting>): Waiting[] {
    const batch: Waiting[] = []
    const oldest = performance.now() - statementTimeoutMs
    for (let records = 0; batch.length < REQUESTS_MAX && records < RECORDS_MAX; ) {
      const next = queue.shift()
      if (!next) break
      waiting--
      if (next.askedAt < oldest) {
        timedOut++
        next.reject(
          storeUnavailable(`Cannot use PostgreSQL because a request has waited for ${statementTimeoutMs} ms`),
        )
      } else {
        batch.push(next)
        records += next.records
      }
    }
    return batch
  }

  async function send(text: string, batch: readonly Waiting[]): Promise<void> {
    underWay++
    let wasSent = false
    const arrays = (batch[0]?.parameters ?? []).map((_, index) =>
      arrayOf(batch.map(({ parameters }) => parameters[index] ?? null)),
    )
    try {
      const rows = await database.rowsFor(SHARE, (sql, answerTag) => {
        wasSent = true
        return sql.unsafe(text, [...arrays, answerTag], { prepare: true })
      })
      if (rows.length !== batch.length)
        throw new Error('PostgreSQL has not answered every request of a batch')
      for (const row of rows) batch[Number(row.at(PLACE)) - 1]?.answer(row)
    } catch (error) {
      const isShared = batch.length > 1 && !isStoreUnavailable(error)
      for (const { reject } of batch) reject(isShared ? ASK_ALONE : error)
      if (!wasSent) rejectWaiting(error)
    } finally {
      underWay--
      start()
    }
  }

  /** No connection can be opened: the other waiting requests will get none either. */
  function rejectWaiting(error: unknown): void {
    for (const queue of queues.values()) {
      for (let next = queue.shift(); next; next = queue.shift()) next.reject(error)
    }
    queues.clear()
    waiting = 0
  }

  function askInBatch(
    text: string,
    request: Omit<Waiting, 'askedAt' | 'answer' | 'reject'>,
  ): Promise<ByteRow> {
    return new Promise((answer, reject) => {
      add(text, { ...request, askedAt: performance.now(), answer, reject })
    })
  }

  return {
    async ask(organizationId, statement, values) {
      if (!isOneServer && (await isDistributed(organizationId)))
        return alone(organizationId, statement, values)
      isOneServer = true
      const { together } = statement
      const parameters = together.parameters.map((name) => values[name] as Value)
      const records = 'limit' in values ? Number(values.limit) : 0
      try {
        return readColumns(together, await askInBatch(together.text, { organizationId, parameters, records }))
      } catch (error) {
        if (error !== ASK_ALONE) throw error
        return alone(organizationId, statement, values)
      }
    },
    connectionUse() {
      const use = database.connectionUse()
      return {
        ...use,
        waiting: use.waiting + waiting,
        refused: use.refused + refused,
        timedOut: use.timedOut + timedOut,
      }
    },
  }
}

/** The column before the answer tag. */
const PLACE = -2
