import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'

/** Counts the work under way in a store, so a close can wait for the end of all work. */
export interface Drain {
  /**
   * Begins a statement. A drain rejects no statement, because the statement may belong to work under way.
   *
   * @returns ends the statement
   */
  beginStatement(): () => void
  /**
   * Begins a request. A request may send statements until the end of the request.
   *
   * @returns ends the request; a second call does nothing
   * @throws `BusinessApiError` with code `store_unavailable` once the drain has begun
   */
  beginRequest(): () => void
  /** Begins the drain, and resolves when nothing is under way, after `timeoutMs` at the latest. */
  finish(timeoutMs: number): Promise<void>
}

/** Creates a drain. */
export function createDrain(): Drain {
  let underWay = 0
  let isFinishing = false
  let reportIdle = (): void => {}

  function begin(): () => void {
    let hasEnded = false
    underWay++
    return () => {
      if (hasEnded) return
      hasEnded = true
      underWay--
      if (underWay === 0) reportIdle()
    }
  }

  async function becomeIdle(): Promise<void> {
    // A call with several statements sends the next statement in the same turn of the event loop in which the previous
    // statement ended, or in the turn after that.
    await turn()
    while (underWay > 0) {
      await new Promise<void>((resolve) => {
        reportIdle = resolve
      })
      await turn()
    }
  }

  return {
    beginStatement: begin,
    beginRequest() {
      if (isFinishing) throw storeUnavailable('Cannot begin a request because the store is being closed')
      return begin()
    },
    async finish(timeoutMs) {
      isFinishing = true
      await withDeadline(becomeIdle(), timeoutMs, () => {})
    },
  }
}
