/** The times for which the event loop was held since the last call. */
export interface Stalls {
  /** The longest stall by the clock, in milliseconds: on a busy machine also the time of other processes. */
  readonly longestMs: number
  /** The longest stall by the processor time of this process alone, in milliseconds. */
  readonly longestOwnMs: number
  /** The processor time of all work, in milliseconds. */
  readonly cpuMs: number
}

const TICK_MS = 2

/** Watches the event loop of this process with a timer. Each call of the result returns the stalls since the previous call. */
export function watchStalls(): () => Stalls {
  let longestMs = 0
  let longestOwnMs = 0
  let at = performance.now()
  let usage = process.cpuUsage()
  let since = usage

  setInterval(() => {
    const late = performance.now() - at - TICK_MS
    const own = readMs(process.cpuUsage(usage))
    longestMs = Math.max(longestMs, late)
    longestOwnMs = Math.max(longestOwnMs, Math.min(late, own))
    at = performance.now()
    usage = process.cpuUsage()
  }, TICK_MS)

  return () => {
    const seen = { longestMs, longestOwnMs, cpuMs: readMs(process.cpuUsage(since)) }
    longestMs = 0
    longestOwnMs = 0
    since = process.cpuUsage()
    return seen
  }
}

function readMs({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) / 1000
}
