import { QUEUE_COUNT_MAX } from '../webhooks/queue-counts.ts'
import type { Output } from './terminal.ts'

/** Shows the progress of a long operation. No-op without a terminal. */
export interface Progress {
  /** Shows what is done so far, for example `1,000 rows`. */
  show(done: string): void
  /** Shows the elapsed seconds until the work is done. */
  during<Result>(work: Promise<Result>): Promise<Result>
  /** Removes the line. */
  clear(): void
}

/** Redrawing more often than this would be too fast to read. */
const REDRAW_MS = 100
const SECOND_MS = 1000
const ERASE_LINE = '\r\x1b[K'

/** @param action what is being done, for example "Recovering" */
export function createProgress(stream: Output, action: string): Progress {
  if (!stream.isTTY) return { show: () => {}, during: (work) => work, clear: () => {} }
  let drawnAt = Number.NEGATIVE_INFINITY
  const clear = (): void => void stream.write(ERASE_LINE)
  const draw = (text = ''): void => void stream.write(`${ERASE_LINE}${action} …${text}`)
  return {
    show(done) {
      if (performance.now() - drawnAt < REDRAW_MS) return
      drawnAt = performance.now()
      draw(` ${done}`)
    },
    async during(work) {
      let seconds = 0
      draw()
      const timer = setInterval(() => draw(` ${++seconds} s`), SECOND_MS)
      try {
        return await work
      } finally {
        clearInterval(timer)
        clear()
      }
    },
    clear,
  }
}

/** Formats a queue count, for example `9,876`, or `10,000 and more` if counting stopped there. */
export function formatBounded(count: number): string {
  return count > QUEUE_COUNT_MAX ? `${formatCount(QUEUE_COUNT_MAX)} and more` : formatCount(count)
}

/** Formats a number, for example `1,234,567`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}
