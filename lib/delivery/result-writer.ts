import { isStoreUnavailable } from '../base/errors.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { AttemptResult, ClaimRef, ClaimStore, FailureLimit, ResultReport } from '../webhooks/claims.ts'
import { createWakeUp } from './wake-up.ts'

/** Number of a loop's attempts by outcome. Results dropped by the store because the claim was lost aren't included. */
export interface DeliveryCounts {
  /** Attempts with a 2xx response. */
  readonly delivered: number
  /** Failed attempts that will be retried. */
  readonly retried: number
  /** Failed attempts that were the last of their round, and unreadable deliveries. */
  readonly failed: number
}

/** Writes the results of attempts to the store in batches, while other attempts continue. */
export interface ResultWriter {
  /** Counts of all results written since the loop was created. */
  readonly counts: DeliveryCounts
  /** Number of results and released claims that haven't been written yet. */
  readonly pending: number
  /** Sets the listener, replacing the previous one. */
  listen(listener: ResultListener): void
  write(result: UntimedResult, times: AttemptTimes): void
  release(claim: ClaimRef): void
  /**
   * Resolves when everything is written or the time is up. Whatever is left is written after the next
   * `write` or `release`.
   *
   * @param ms timeout in milliseconds
   */
  settle(ms: number): Promise<void>
}

/** The result of an attempt without its times. */
export type UntimedResult = Omit<AttemptResult, 'startedAgoMs' | 'endedAgoMs'>

/** Start and end of an attempt in milliseconds of the monotonic clock. */
export interface AttemptTimes {
  readonly startedAt: number
  readonly endedAt: number
}

/** Callbacks of a result writer. */
export interface ResultListener {
  /** Called after results were written. Retries are due after their delay by the store's clock, or slightly earlier. */
  onWritten(results: readonly UntimedResult[], report: ResultReport): void
  onError(error: unknown): void
}

interface Ended {
  readonly result: UntimedResult
  readonly times: AttemptTimes
}

/** Larger batches would keep the database busy for too long. */
const BATCH_MAX = 200
const RETRY_MS = 500
/** How long the first result waits for others, in milliseconds. In PostgreSQL, ten cost hardly more than one. */
const GATHER_MS = 20

/**
 * Creates the result writer of a loop. Only one statement runs at a time. The first result waits a few milliseconds for
 * others, and results that arrive while a statement is running form the next batch, so batches grow with the load. If
 * writing fails, results are kept and tried again. If that takes longer than the leases, the attempts are repeated,
 * because sending a webhook twice is better than losing it. A result that the store rejects twice on its own is dropped
 * to keep it from blocking the rest.
 */
export function createResultWriter(
  store: Pick<ClaimStore, 'writeResults' | 'release'>,
  limit: FailureLimit,
): ResultWriter {
  const ended: Ended[] = []
  const released: ClaimRef[] = []
  const refused = new WeakSet<Ended>()
  const counts = { delivered: 0, retried: 0, failed: 0 }
  let listener: ResultListener = { onWritten() {}, onError() {} }
  let batchSize = BATCH_MAX
  let writing: Promise<void> | undefined
  let isSuspended = false
  const gathered = createWakeUp()

  async function writeAll(): Promise<void> {
    await gathered.wait(GATHER_MS)
    while (ended.length + released.length > 0 && !isSuspended) {
      const areWritten = [await succeeds(writeReleased), await succeeds(writeEnded)]
      if (areWritten.includes(false)) await sleep(RETRY_MS)
    }
    writing = undefined
  }

  async function succeeds(work: () => Promise<void>): Promise<boolean> {
    try {
      await work()
      return true
    } catch (error) {
      listener.onError(error)
      return false
    }
  }

  async function writeReleased(): Promise<void> {
    const batch = released.slice(0, BATCH_MAX)
    if (batch.length === 0) return
    await store.release(batch)
    released.splice(0, batch.length)
  }

  async function writeEnded(): Promise<void> {
    const batch = ended.slice(0, batchSize)
    if (batch.length === 0) return
    const report = await writeOrShrink(batch)
    if (report === null) return
    ended.splice(0, batch.length)
    batchSize = Math.min(BATCH_MAX, batchSize * 2)
    const results = batch.map(({ result }) => result)
    count(results, report)
    listener.onWritten(results, report)
  }

  function count(results: readonly UntimedResult[], { lost }: ResultReport): void {
    const lostNames = new Set(lost.map(nameOf))
    for (const result of results) {
      if (lostNames.size > 0 && lostNames.has(nameOf(result))) continue
      if (result.outcome === 'delivered') counts.delivered++
      else if (result.outcome === 'retry') counts.retried++
      else counts.failed++
    }
  }

  /** Returns `null` if the batch failed. The next one is half as large, until the bad result is on its own. */
  async function writeOrShrink(batch: readonly Ended[]): Promise<ResultReport | null> {
    try {
      return await store.writeResults(batch.map(toResult), limit)
    } catch (error) {
      if (isStoreUnavailable(error)) throw error
      if (batch.length === 1) {
        moveToEnd(batch)
        throw error
      }
      batchSize = Math.ceil(batch.length / 2)
      return null
    }
  }

  /** If a result is rejected for the second time, it's dropped. */
  function moveToEnd(batch: readonly Ended[]): void {
    ended.splice(0, batch.length)
    ended.push(...batch.filter((one) => !refused.has(one)))
    for (const one of batch) refused.add(one)
  }

  function resume(): void {
    isSuspended = false
    writing ??= writeAll()
  }

  return {
    counts,
    get pending() {
      return ended.length + released.length
    },
    listen(next) {
      listener = next
    },
    write(result, times) {
      ended.push({ result, times })
      resume()
    },
    release(claim) {
      released.push(claim)
      resume()
    },
    async settle(ms) {
      gathered.wake()
      await withDeadline(Promise.resolve(writing), ms, () => {})
      isSuspended = true
    },
  }
}

/** Returns a string that identifies a claim. */
export function nameOf({ organizationId, deliveryId, token }: ClaimRef): string {
  return JSON.stringify([organizationId, deliveryId, token])
}

/** Converts times to relative ones so that only the store's clock matters. */
function toResult({ result, times }: Ended): AttemptResult {
  const now = performance.now()
  // We assign to the result itself because a spread with this many properties is slow.
  return Object.assign(result, { startedAgoMs: now - times.startedAt, endedAgoMs: now - times.endedAt })
}
