import { createFairQueue } from '../base/fair-queue.ts'

/** Waits until a caller without a valid key may be told so. */
export type RefusalPace = (peer: string) => Promise<void>

/** Refusals at once, after a time with few. */
const BURST = 100
/** In the long run, while few wait. */
const PER_SECOND = 200
/** So short that the refusals of one tick, and the requests that follow them, hold up nothing. */
const TICK_MS = 5
/** Of the longest wait, how much is planned for a refusal: with other peers' between, it may take longer. */
const PLANNED_SHARE = 0.8
/** Refusals that wait. */
const WAITING_MAX = 10_000

interface Waiter {
  readonly peer: string
  readonly since: number
  go(): void
}

/**
 * Spaces out the answers 401. A caller that gets one at once sends the next request at once, and a thousand such callers
 * have nearly all of the process's time: callers with a valid key wait behind them in the event loop, however little each
 * refusal costs. A hundred at once and 200 a second go out without delay. Beyond that refusals wait for their turn, in round
 * robin of the peers, so that one caller's wrong key is answered soon beside another's flood; the more of them wait, the
 * faster they go out, so that all do in time, and evenly.
 *
 * @param maxWaitMs after which a refusal goes out whatever waits
 */
export function createRefusalPace(maxWaitMs: number): RefusalPace {
  const waiting = createFairQueue<string, Waiter>()
  /** The same, in the order of arrival. */
  const arrivals = new Set<Waiter>()
  let credit = BURST
  let creditedAt = performance.now()

  function addCredit(): void {
    const now = performance.now()
    const perMs = Math.max(PER_SECOND / 1000, waiting.size / (maxWaitMs * PLANNED_SHARE))
    credit = Math.min(BURST, credit + (now - creditedAt) * perMs)
    creditedAt = now
  }

  function letGo(waiter: Waiter | undefined): void {
    if (!waiter) return
    arrivals.delete(waiter)
    waiter.go()
  }

  function letGoLate(): void {
    const before = performance.now() - maxWaitMs
    for (const waiter of arrivals) {
      if (waiter.since > before) return
      waiting.remove(waiter.peer, waiter)
      letGo(waiter)
    }
  }

  function tick(): void {
    addCredit()
    letGoLate()
    for (; credit >= 1 && waiting.size > 0; credit--) letGo(waiting.shift())
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
    if (waiting.size >= WAITING_MAX) letGo(waiting.shiftLongest())
    await new Promise<void>((go) => {
      const waiter = { peer, since: performance.now(), go }
      waiting.add(peer, waiter)
      arrivals.add(waiter)
    })
  }
}
