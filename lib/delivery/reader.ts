import { withDeadline } from '../base/time.ts'
import type { ClaimedDelivery, ClaimRef, ClaimStore } from '../webhooks/claims.ts'
import type { Unread } from './poller.ts'
import type { Claimed } from './queue.ts'

// Reads deliveries one by one: deliveries with a large body, and all deliveries after a failed claim, to find the delivery
// at fault. Each read is a separate statement, so an unreadable delivery holds up no other delivery.
//
// An unreadable delivery is a suspect, and goes back to the store until the endpoint's pause has passed. A slow
// database must fail none: a failed read counts only when another delivery was read quickly since the read before, and
// when a suspect is read after all, the database was at fault, and no failure of any suspect counts any longer. The third
// failure that counts fails the delivery as `unreadable`, until an administrator recovers the delivery.

/** Reads deliveries separately. */
export interface Reader {
  /** Deliveries that wait to be read, or are being read. */
  readonly pending: number
  /** True while a delivery is known that could not be read. */
  readonly hasSuspects: boolean
  /** Replaces the listener. */
  listen(listener: ReadListener): void
  add(delivery: Unread): void
  /** Counts deliveries that a claim has brought with the content, as evidence that the database is well. */
  noteRead(tookMs: number): void
  /** Removes every pending delivery. The results of reads under way are dropped. */
  drain(): readonly Unread[]
}

/** Listens to a reader. Each added delivery that is not drained comes back by one of these calls. */
export interface ReadListener {
  onRead(delivery: Claimed): void
  /** The claim is lost, the endpoint was removed, or the lease has become too short. */
  onGone(delivery: Unread): void
  /** The delivery could not be read. @param pauseMs how long the endpoint should be left alone */
  onFailed(delivery: Unread, error: unknown, pauseMs: number): void
  /** The delivery can never be read. */
  onUnreadable(delivery: Unread, error: unknown): void
}

interface Suspect {
  /** Failed reads, and failed reads that count. */
  tries: number
  failures: number
  /** Quick reads of other deliveries that have been counted, at the time of the last failure. */
  readsSeen: number
  failedAt: number
}

const READS_MAX = 4
/** A slower read doesn't prove that the database is healthy. */
const QUICK_READ_MS = 1000
const FAILURES_MAX = 3
/** Pause of the endpoint after a failed read, doubled with each further failure. */
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A suspect that was not claimed for this long was cancelled, or set aside by another process. */
const FORGET_AFTER_MS = 10 * 60_000

/**
 * Creates the reader of a loop.
 *
 * @param leaseMs duration of a claim: a delivery with less than half of the lease left is no longer read
 */
export function createReader(store: Pick<ClaimStore, 'read'>, leaseMs: number): Reader {
  /** Each organization has one read at a time, so no organization takes all reads. */
  const reading = new Map<string, Unread>()
  const waiting: Unread[] = []
  const suspects = new Map<string, Suspect>()
  let listener: ReadListener = { onRead() {}, onGone() {}, onFailed() {}, onUnreadable() {} }
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
    // Drained meanwhile.
    if (reading.get(unread.organizationId) !== unread) return
    reading.delete(unread.organizationId)
    if ('error' in answer) fail(unread, answer.error, readsBefore)
    else if (answer.delivery === undefined) listener.onGone(unread)
    else succeed(unread, answer.delivery, performance.now() - startedAt)
    readNext()
  }

  /** Undefined when too little of the lease is left. */
  async function readInTime(unread: Unread, ms: number): Promise<ClaimedDelivery | undefined> {
    if (ms < leaseMs / 2) return undefined
    const [delivery] = await withDeadline(store.read([claimRefOf(unread)]), ms, () => {
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
    listen(next) {
      listener = next
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

function claimRefOf({ organizationId, id, token }: Unread): ClaimRef {
  return { organizationId, deliveryId: id, token }
}
