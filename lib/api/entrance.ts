import { createFairQueue } from '../base/fair-queue.ts'

/** Waits until a request of an unknown caller may be looked at. */
export type Entrance = (peer: () => string) => Promise<void> | undefined

/** Requests of unknown callers in one turn of the event loop: less than a millisecond of the process's time. */
const PER_TURN = 8

/**
 * Lets requests of unknown callers in, a few in each turn of the event loop, round robin by peer. Node reads the
 * requests of a thousand new connections in one turn: without this pace, a caller with a valid key would wait for a
 * thousand refusals. Only reading the credentials is done at once.
 */
export function createEntrance(): Entrance {
  const waiting = createFairQueue<string, { enter(): void }>()
  let places = PER_TURN
  let isTurning = false

  function turn(): void {
    isTurning = false
    for (places = PER_TURN; places > 0 && waiting.size > 0; places--) waiting.shift()?.enter()
    if (waiting.size > 0) awaitTurn()
  }

  function awaitTurn(): void {
    if (isTurning) return
    isTurning = true
    setImmediate(turn)
  }

  return (peer) => {
    awaitTurn()
    if (places > 0) {
      places--
      return undefined
    }
    return new Promise((enter) => {
      waiting.add(peer(), { enter })
    })
  }
}
