import { createFairQueue } from '../base/fair-queue.ts'

/** Waits until a caller without a valid key may be told so. */
export type RefusalPace = (peer: string) => Promise<void>

/** Refusals at once, after a time with few. */
const BURST = 100
/** In the long run, while few wait. */
const PER_SECOND = 200
/** So short that the refusals of one tick, and the requests that follow them, hold up nothing. */
const TICK_MS = 5
/** Of the time of a request, how long a refusal is meant to wait: some came late, and some are overtaken. */
const WAIT_SHARE = 0.6
/** Refusals that wait; the oldest of the peer with most goes out when there is one more. */
const WAITING_MAX = 10_000

/**
 * Spaces out the answers 401. A caller that gets one at once sends the next request at once, and a thousand such callers
 * have nearly all of the process's time: callers with a valid key wait behind them in the event loop, however little each
 * refusal costs. A hundred at once and 200 a second go out without delay. Beyond that refusals wait for their turn, in round
 * robin of the peers, so that one caller's wrong key is answered soon beside another's flood; the more of them wait, the
 * faster they go out, so that they do in time, and evenly.
 *
 * @param deadlineMs the time of a request
 */
export function createRefusalPace(deadlineMs: number): RefusalPace {
  const waiting = createFairQueue<string, { go(): void }>()
  let credit = BURST
  let creditedAt = performance.now()

  function addCredit(): void {
    const now = performance.now()
    const perMs = Math.max(PER_SECOND / 1000, waiting.size / (deadlineMs * WAIT_SHARE))
    credit = Math.min(BURST, credit + (now - creditedAt) * perMs)
    creditedAt = now
  }

  function tick(): void {
    addCredit()
    for (; credit >= 1 && waiting.size > 0; credit--) waiting.shift()?.go()
    if (waiting.size > 0) setTimeout(tick, TICK_MS)
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
    })
  }
}
