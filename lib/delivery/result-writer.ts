import { isStoreUnavailable } from '../base/errors.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { AttemptResult, ClaimRef, ClaimStore, FailureLimit, ResultReport } from '../webhooks/claims.ts'
import { createWakeUp } from './wake-up.ts'

/** A loop's attempts by outcome. Doesn't include results that the store dropped because the claim was lost. */
export interface DeliveryCounts {
  /** Attempts with a 2xx response. */
  readonly delivered: number
  /** Failed attempts that will be retried. */
  readonly retried: number
  /** Failed final attempts, and unreadable deliveries. */
  readonly failed: number
}

/** Writes attempt results to the store in batches, while other attempts continue. */
export interface ResultWriter {
  /** Counts of all results written since the loop was created. */
  readonly counts: DeliveryCounts
  /** Number of results and released claims that haven't been written yet. */
  readonly pending: number
  write(result: UntimedResult, times: AttemptTimes): void
  release(claim: ClaimRef): void
  /**
   * Resolves once everything is written or the timeout is reached. Anything left is written along with the next `write`
   * or `release`.
   *
   * @param ms timeout in milliseconds
   */
  settle(ms: number): Promise<void>
}

/** An attempt result without times. */
export type UntimedResult = Omit<AttemptResult, 'startedAgoMs' | 'endedAgoMs'>

/** When an attempt started and ended, in monotonic milliseconds. */
export interface AttemptTimes {
  readonly startedAt: number
  readonly endedAt: number
}

/** Result writer callbacks. */
export interface ResultListener {
  /** Called after writing results. Retries are due after their delay (or slightly earlier) by the store's clock. */
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
/** How long the first result waits for others, in milliseconds. PostgreSQL writes ten almost as fast as one. */
const GATHER_MS = 50

/**
 * Creates a loop's result writer. Only one statement runs at a time. The first result waits a few milliseconds for
 * others, and results that arrive while a statement is running go into the next batch, so batches grow with the load.
 * If a write fails, we keep the results and retry. If that takes longer than the leases, the attempts will be made
 * again because sending a webhook twice is better than losing it. A result that the store rejects twice by itself is
 * dropped to unblock the rest.
 */
export function createResultWriter(
  store: Pick<ClaimStore, 'writeResults' | 'release'>,
  limit: FailureLimit,
  listener: ResultListener,
): ResultWriter {
  const ended: Ended[] = []
  const released: ClaimRef[] = []
  const refused = new WeakSet<Ended>()
  const counts = { delivered: 0, retried: 0, failed: 0 }
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

  /** Returns `null` if the batch failed. The next batch is half as large, until only the bad result is left. */
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

  /** Moves a rejected result to the end, or drops it if this is the second time. */
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

/** Makes times relative, so only the store's clock matters. */
function toResult({ result, times }: Ended): AttemptResult {
  const now = performance.now()
  // Mutate the result because spreading this many properties is slow.
  return Object.assign(result, { startedAgoMs: now - times.startedAt, endedAgoMs: now - times.endedAt })
}
