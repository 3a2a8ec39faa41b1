import { createFairQueue } from '../base/fair-queue.ts'

/** Waits until the answer 401 to a caller may go out. */
export type RefusalPace = (peer: string) => Promise<void>

/** Answers without delay, after a time with few. */
const BURST = 100
/** Answers a second in the long run, while few wait. */
const PER_SECOND = 200
/** The answers of one tick, and the requests that follow the answers, take the process less than a millisecond. */
const TICK_MS = 5
/** The planned wait as a share of a request's time. The rest is for the look-up before the wait, and for other peers' turns. */
const WAIT_SHARE = 0.6
/** Answers that wait at most. A further answer lets the oldest answer go out, of the peer with the most answers. */
const WAITING_MAX = 10_000

/**
 * Spaces out the answers 401. A flooding caller sends the next request as soon as the answer has come, and a thousand such
 * callers take nearly all of the process's time, however little each answer costs: callers with a valid key wait behind the
 * flood in the event loop. A hundred answers at once and 200 a second go out without delay. Beyond that, answers wait for
 * their turns in round robin of the peers, so that a mistyped key is answered soon beside another caller's flood. The
 * pace grows with the largest number that waited, so that all answers go out in time, and evenly.
 *
 * @param deadlineMs the time of a request
 */
export function createRefusalPace(deadlineMs: number): RefusalPace {
  const waiting = createFairQueue<string, { go(): void }>()
  let credit = BURST
  let creditedAt = performance.now()
  /** The largest number that waited since nothing waited: a pace that fell with the number would leave a long tail. */
  let mostWaiting = 0

  function addCredit(): void {
    const now = performance.now()
    const perMs = Math.max(PER_SECOND / 1000, mostWaiting / (deadlineMs * WAIT_SHARE))
    credit = Math.min(BURST, credit + (now - creditedAt) * perMs)
    creditedAt = now
  }

  function tick(): void {
    addCredit()
    for (; credit >= 1 && waiting.size > 0; credit--) waiting.shift()?.go()
    if (waiting.size > 0) setTimeout(tick, TICK_MS)
    else mostWaiting = 0
  }

  return async (peer) => {
    if (waiting.size === 0) {
      addCredit()
      if (credit >= 1) {
        credit--
        return
      }
      setTimeout(tick, TICK_MS)
    }
    if (waiting.size >= WAITING_MAX) waiting.shiftLongest()?.go()
    await new Promise<void>((go) => {
      waiting.add(peer, { go })
      mostWaiting = Math.max(mostWaiting, waiting.size)
    })
  }
}
