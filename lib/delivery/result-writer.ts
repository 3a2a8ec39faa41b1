import { isStoreUnavailable } from '../base/errors.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { AttemptResult, ClaimRef, ClaimStore, FailureLimit, ResultReport } from '../webhooks/claims.ts'
import { createWakeUp } from './wake-up.ts'

/** Attempts of a loop by outcome, without results that the store has dropped because the claim was lost. */
export interface DeliveryCounts {
  /** Attempts that were answered with 2xx. */
  readonly delivered: number
  /** Attempts that failed and are retried. */
  readonly retried: number
  /** Failed attempts that were the last of a round, and deliveries set aside as unreadable. */
  readonly failed: number
}

/** Writes the results of attempts to the store, in batches, while the attempts go on. */
export interface ResultWriter {
  /** Counts of all results written since the loop was created. */
  readonly counts: DeliveryCounts
  /** Results and released claims that are not written yet. */
  readonly pending: number
  /** Replaces the listener. */
  listen(listener: ResultListener): void
  write(result: UntimedResult, times: AttemptTimes): void
  release(claim: ClaimRef): void
  /**
   * Resolves when everything is written. After the time has passed the rest is left for the next `write` or `release`.
   *
   * @param ms milliseconds
   */
  settle(ms: number): Promise<void>
}

/** The result of an attempt without the times. */
export type UntimedResult = Omit<AttemptResult, 'startedAgoMs' | 'endedAgoMs'>

/** Start and end of an attempt on the monotonic clock, in milliseconds. */
export interface AttemptTimes {
  readonly startedAt: number
  readonly endedAt: number
}

/** Listens to a result writer. */
export interface ResultListener {
  /** Called after results were written. Retries are due after the given delay by the store's clock, or a moment earlier. */
  onWritten(results: readonly UntimedResult[], report: ResultReport): void
  onError(error: unknown): void
}

interface Ended {
  readonly result: UntimedResult
  readonly times: AttemptTimes
}

/** A larger batch would keep the database from other work for too long. */
const BATCH_MAX = 200
const RETRY_MS = 500
/** Time for which a first result waits for others, in ms. PostgreSQL writes ten results for little more than one. */
const GATHER_MS = 20

/**
 * Creates the result writer of a loop. One statement runs at a time. The first result waits some milliseconds for others, and
 * results that come during a statement make the next batch, so batches grow with the load. Unwritten results are kept and tried
 * again. When writing takes longer than
 * the leases, the attempts are made once more, because a repeated webhook is better than a lost webhook. A single result that
 * the store rejects twice is dropped, because it would hold up all other results.
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

  /** Null: the next batch is half as large, until the result at fault is alone. */
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

  /** Rejected for the second time, a result is dropped. */
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

/** Names a claim, for sets of claims. */
export function nameOf({ organizationId, deliveryId, token }: ClaimRef): string {
  return JSON.stringify([organizationId, deliveryId, token])
}

/** Relative times, so the store's clock alone decides. */
function toResult({ result, times }: Ended): AttemptResult {
  const now = performance.now()
  // Into the result itself, because a spread of so many fields is slow.
  return Object.assign(result, { startedAgoMs: now - times.startedAt, endedAgoMs: now - times.endedAt })
}
