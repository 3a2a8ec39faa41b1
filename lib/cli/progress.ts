import { QUEUE_COUNT_MAX } from '../webhooks/queue-counts.ts'
import type { Output } from './terminal.ts'

/** Shows the progress of a long operation. No-op without a terminal. */
export interface Progress {
  /** `false` if nothing is drawn. In that case, you can skip counting. */
  readonly isShown: boolean
  show(done: number, total: number): void
  /** Shows the elapsed seconds until the work is done. */
  during<Result>(work: Promise<Result>): Promise<Result>
  /** Removes the bar. */
  clear(): void
}

const BAR_WIDTH = 24
/** Redrawing more often than this would be too fast to read. */
const REDRAW_MS = 100
const SECOND_MS = 1000
const ERASE_LINE = '\r\x1b[K'

/** @param action what is being done, for example "Recovering" */
export function createProgress(stream: Output, action: string): Progress {
  if (!stream.isTTY) return { isShown: false, show: () => {}, during: (work) => work, clear: () => {} }
  let drawnAt = Number.NEGATIVE_INFINITY
  const draw = (text: string): void => void stream.write(ERASE_LINE + text)
  return {
    isShown: true,
    show(done, total) {
      if (performance.now() - drawnAt < REDRAW_MS && done < total) return
      drawnAt = performance.now()
      draw(`${action} ${formatBar(done, total)}`)
    },
    async during(work) {
      let seconds = 0
      draw(`${action} …`)
      const timer = setInterval(() => draw(`${action} … ${++seconds} s`), SECOND_MS)
      try {
        return await work
      } finally {
        clearInterval(timer)
        draw('')
      }
    },
    clear: () => draw(''),
  }
}

/** Formats a bar such as `[######------] 50 %  1,000 of 2,000`. Capped at 100 % in case the total was too low. */
export function formatBar(done: number, total: number): string {
  const all = Math.max(done, total, 1)
  const filled = Math.floor((done / all) * BAR_WIDTH)
  const bar = '#'.repeat(filled) + '-'.repeat(BAR_WIDTH - filled)
  const percent = Math.floor((done / all) * 100)
  return `[${bar}] ${percent} %  ${formatCount(done)} of ${formatCount(Math.max(done, total))}`
}

/** Formats a queue count, for example `9,876`, or `10,000 and more` if counting stopped there. */
export function formatBounded(count: number): string {
  return count > QUEUE_COUNT_MAX ? `${formatCount(QUEUE_COUNT_MAX)} and more` : formatCount(count)
}

/** Formats a number, for example `1,234,567`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}
