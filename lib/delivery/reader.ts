import { withDeadline } from '../base/time.ts'
import type { ClaimedDelivery, ClaimStore } from '../webhooks/claims.ts'
import { refOf } from './dispatcher.ts'
import type { Unread } from './poller.ts'
import type { Claimed } from './queue.ts'

// Reads deliveries one at a time. Used for large bodies, and to find the culprit after a failed claim. Each delivery
// gets its own statement, so an unreadable one doesn't affect the rest.
//
// If a read fails, the delivery becomes a suspect and is released until its endpoint's pause is over. A slow database
// must never fail a delivery, so a failed read only counts if another delivery was read quickly since the last failure.
// If a suspect turns out to be readable, it was the database's fault and we reset all suspects. On the third failure
// that counts, the delivery fails as `unreadable`. Administrators can still recover it.

/** Reads deliveries one at a time. */
export interface Reader {
  /** Number of deliveries that are being read or waiting to be read. */
  readonly pending: number
  /** `true` if there are deliveries that couldn't be read. */
  readonly hasSuspects: boolean
  add(delivery: Unread): void
  /** Counts a claim that returned content, which shows that the database is healthy. */
  noteRead(tookMs: number): void
  /** Removes all pending deliveries. Results of reads in progress are discarded. */
  drain(): readonly Unread[]
}

/** Reader callbacks. Unless drained, each delivery is passed to exactly one callback. */
export interface ReadListener {
  onRead(delivery: Claimed): void
  /** The claim was lost, the endpoint was removed, or the lease is about to expire. */
  onGone(delivery: Unread): void
  /** The delivery couldn't be read this time. @param pauseMs how long to pause the endpoint */
  onFailed(delivery: Unread, error: unknown, pauseMs: number): void
  /** The delivery is permanently unreadable. */
  onUnreadable(delivery: Unread, error: unknown): void
}

interface Suspect {
  /** Total number of failed reads, and how many of them count. */
  tries: number
  failures: number
  /** The value of `quickReads` at the last failure. */
  readsSeen: number
  failedAt: number
}

const READS_MAX = 4
/** A read that takes longer than this doesn't show that the database is healthy. In milliseconds. */
const QUICK_READ_MS = 1000
const FAILURES_MAX = 3
/** How long to pause the endpoint after a failed read, in milliseconds. Doubles with each failure. */
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A suspect that isn't claimed for this long has probably been cancelled or handled by another process. */
const FORGET_AFTER_MS = 10 * 60_000

/**
 * Creates a loop's reader.
 *
 * @param leaseMs lease duration in milliseconds. Deliveries with less than half of it left aren't read
 */
export function createReader(
  store: Pick<ClaimStore, 'read'>,
  leaseMs: number,
  listener: ReadListener,
): Reader {
  /** Reads in progress. At most one per organization, so no organization can use them all. */
  const reading = new Map<string, Unread>()
  const waiting: Unread[] = []
  const suspects = new Map<string, Suspect>()
  let quickReads = 0

  function readNext(): void {
    while (reading.size < READS_MAX) {
      const place = waiting.findIndex(({ organizationId }) => !reading.has(organizationId))
      const [next] = place === -1 ? [] : waiting.splice(place, 1)
      if (next === undefined) return
      reading.set(next.organizationId, next)
      void read(next)
    }
  }

  async function read(unread: Unread): Promise<void> {
    const readsBefore = quickReads
    const startedAt = performance.now()
    let answer: ReadAnswer
    try {
      answer = { delivery: await readInTime(unread, unread.leaseEndsAt - startedAt) }
    } catch (error) {
      answer = { error }
    }
    // The delivery was drained in the meantime.
    if (reading.get(unread.organizationId) !== unread) return
    reading.delete(unread.organizationId)
    if ('error' in answer) fail(unread, answer.error, readsBefore)
    else if (answer.delivery === undefined) listener.onGone(unread)
    else succeed(unread, answer.delivery, performance.now() - startedAt)
    readNext()
  }

  /** Returns `undefined` if there isn't enough time left on the lease. */
  async function readInTime(unread: Unread, ms: number): Promise<ClaimedDelivery | undefined> {
    if (ms < leaseMs / 2) return undefined
    const [delivery] = await withDeadline(store.read([refOf(unread)]), ms, () => {
      throw new Error(`Cannot read a delivery because the store has not answered within ${Math.round(ms)} ms`)
    })
    return delivery
  }

  function noteRead(tookMs: number): void {
    if (tookMs < QUICK_READ_MS) quickReads++
  }

  function succeed(unread: Unread, delivery: ClaimedDelivery, tookMs: number): void {
    if (suspects.has(unread.id)) suspects.clear()
    noteRead(tookMs)
    const { token, leaseEndsAt } = unread
    listener.onRead({ ...delivery, token, leaseEndsAt })
  }

  function fail(unread: Unread, error: unknown, readsBefore: number): void {
    const suspect = suspects.get(unread.id) ?? { tries: 0, failures: 0, readsSeen: readsBefore, failedAt: 0 }
    suspect.tries++
    if (quickReads > suspect.readsSeen) suspect.failures++
    suspect.readsSeen = quickReads
    suspect.failedAt = performance.now()
    suspects.set(unread.id, suspect)
    for (const [id, { failedAt }] of suspects) if (isForgotten(failedAt)) suspects.delete(id)
    if (suspect.failures < FAILURES_MAX) {
      listener.onFailed(unread, error, Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** (suspect.tries - 1)))
    } else {
      suspects.delete(unread.id)
      listener.onUnreadable(unread, error)
    }
  }

  return {
    get pending() {
      return reading.size + waiting.length
    },
    get hasSuspects() {
      return [...suspects.values()].some(({ failedAt }) => !isForgotten(failedAt))
    },
    add(delivery) {
      waiting.push(delivery)
      readNext()
    },
    noteRead,
    drain() {
      const drained = [...reading.values(), ...waiting.splice(0)]
      reading.clear()
      return drained
    },
  }
}

function isForgotten(failedAt: number): boolean {
  return failedAt < performance.now() - FORGET_AFTER_MS
}

type ReadAnswer = { readonly delivery: ClaimedDelivery | undefined } | { readonly error: unknown }
