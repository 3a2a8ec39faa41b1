import type { AttemptResult, ClaimRef, DeliveryStore, FailureLimit, RecordReport } from '../deliveries.ts'
import { isStoreUnavailable } from '../errors.ts'

/** Writes down what became of claims, in batches, off the path of the attempts. */
export interface Recorder {
  /** How many are not written yet. */
  readonly pending: number
  record(result: UntimedResult, times: AttemptTimes): void
  release(claim: ClaimRef): void
  /** Resolves when everything is written, or given up after `ms`. */
  settle(ms: number): Promise<void>
}

/** The result of an attempt but for how long ago it was. */
export type UntimedResult = Omit<AttemptResult, 'startedAgoMs' | 'endedAgoMs'>

/** On the monotonic clock, in milliseconds. */
export interface AttemptTimes {
  readonly startedAt: number
  readonly endedAt: number
}

/** What a recorder tells. */
export interface RecorderEvents {
  /** These are written: what becomes due by them is due that much later by the store's clock, or a moment less. */
  onRecorded(results: readonly UntimedResult[], report: RecordReport): void
  onError(error: unknown): void
}

interface Ended {
  readonly result: UntimedResult
  readonly times: AttemptTimes
}

/** Larger ones would keep the database from other work for longer than anybody should notice. */
const BATCH_MAX = 200
const RETRY_MS = 500

/**
 * One statement at a time: what ends while it is under way makes the next batch, so that batches are as large as the load
 * asks for. What cannot be written is kept and tried again; should that take longer than the leases, the attempts are made
 * once more, which is better than none. Only a result that the store refuses by itself, twice, is given up: it would hold
 * up all the others.
 */
export function createRecorder(
  store: Pick<DeliveryStore, 'record' | 'release'>,
  limit: FailureLimit,
  { onRecorded, onError }: RecorderEvents,
): Recorder {
  const ended: Ended[] = []
  const released: ClaimRef[] = []
  const refused = new WeakSet<Ended>()
  let batchSize = BATCH_MAX
  let writing: Promise<void> | undefined
  let isGivenUp = false

  async function writeAll(): Promise<void> {
    while (ended.length + released.length > 0 && !isGivenUp) {
      const areWritten = [await succeeds(writeReleased), await succeeds(writeEnded)]
      if (areWritten.includes(false)) await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
    writing = undefined
  }

  async function succeeds(work: () => Promise<void>): Promise<boolean> {
    try {
      await work()
      return true
    } catch (error) {
      onError(error)
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
    const report = await recordOrShrink(batch)
    if (report === null) return
    ended.splice(0, batch.length)
    batchSize = Math.min(BATCH_MAX, batchSize * 2)
    onRecorded(
      batch.map(({ result }) => result),
      report,
    )
  }

  /** Null: fewer at once are to be tried, until the one that cannot be written is found. */
  async function recordOrShrink(batch: readonly Ended[]): Promise<RecordReport | null> {
    try {
      return await store.record(batch.map(toResult), limit)
    } catch (error) {
      if (isStoreUnavailable(error)) throw error
      if (batch.length === 1) {
        setAside(batch)
        throw error
      }
      batchSize = Math.ceil(batch.length / 2)
      return null
    }
  }

  function setAside(batch: readonly Ended[]): void {
    ended.splice(0, batch.length)
    ended.push(...batch.filter((one) => !refused.has(one)))
    for (const one of batch) refused.add(one)
  }

  function write(): void {
    isGivenUp = false
    // A turn later: what ends in the same moment goes together.
    writing ??= Promise.resolve().then(writeAll)
  }

  return {
    get pending() {
      return ended.length + released.length
    },
    record(result, times) {
      ended.push({ result, times })
      write()
    },
    release(claim) {
      released.push(claim)
      write()
    },
    async settle(ms) {
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, ms)
      })
      await Promise.race([writing, timeout])
      clearTimeout(timer)
      isGivenUp = true
    },
  }
}

/** Relative to now, so that no clock but the store's counts. */
function toResult({ result, times }: Ended): AttemptResult {
  const now = performance.now()
  return { ...result, startedAgoMs: now - times.startedAt, endedAgoMs: now - times.endedAt }
}
