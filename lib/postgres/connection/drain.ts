import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'

/** Tracks work in progress so that closing the store can wait for it. */
export interface Drain {
  /**
   * Starts tracking a statement, even during a drain, since the statement may belong to a request that is still
   * running.
   *
   * @returns a function that ends the statement
   */
  beginStatement(): () => void
  /**
   * Starts tracking a request, which may send statements until it ends.
   *
   * @returns a function that ends the request. Calling it again is a no-op
   * @throws `BusinessApiError` with code `store_unavailable` once the drain has started
   */
  beginRequest(): () => void
  /** Starts the drain. Resolves once all work has finished, or after `timeoutMs`. */
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
    // A call with several statements sends the next one within two turns of the event loop.
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
