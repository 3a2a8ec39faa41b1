import { QUEUE_COUNT_MAX } from '../webhooks/queue-counts.ts'
import type { Output } from './terminal.ts'

/** Shows on a terminal how far long work has come, and shows nothing elsewhere. */
export interface Progress {
  /** False where the bar is not drawn, so counting for the bar is useless. */
  readonly isShown: boolean
  /** Draws the bar. */
  show(done: number, total: number): void
  /** Shows the seconds that a piece of work takes, until the work ends. */
  during<Result>(work: Promise<Result>): Promise<Result>
  /** Leaves nothing behind. */
  clear(): void
}

const BAR_WIDTH = 24
/** More frequent frames cannot be read. */
const REDRAW_MS = 100
const SECOND_MS = 1000
const ERASE_LINE = '\r\x1b[K'

/** @param action the work in progress: "Recovering" */
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

/** `[######------] 50 %  1,000 of 2,000`: never above 100 %, although more work may come in than was counted. */
export function formatBar(done: number, total: number): string {
  const all = Math.max(done, total, 1)
  const filled = Math.floor((done / all) * BAR_WIDTH)
  const bar = '#'.repeat(filled) + '-'.repeat(BAR_WIDTH - filled)
  const percent = Math.floor((done / all) * 100)
  return `[${bar}] ${percent} %  ${formatCount(done)} of ${formatCount(Math.max(done, total))}`
}

/** `9,876`, or `10,000 and more` for a count of the queue that ended before all was counted. */
export function formatBounded(count: number): string {
  return count > QUEUE_COUNT_MAX ? `${formatCount(QUEUE_COUNT_MAX)} and more` : formatCount(count)
}

/** `1,234,567` */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}
