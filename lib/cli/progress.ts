import type { Output } from './terminal.ts'

/** Shows how far long work has come; only on a terminal, where it can be taken back. */
export interface Progress {
  /** Whether anybody sees it: what is counted for it only need not be counted otherwise. */
  readonly isShown: boolean
  show(done: number, total: number): void
  /** Leaves nothing behind. */
  clear(): void
}

const BAR_WIDTH = 24
/** More often nobody can read it. */
const REDRAW_MS = 100

/** @param action what is being done: "Recovering" */
export function createProgress(stream: Output, action: string): Progress {
  if (!stream.isTTY) return { isShown: false, show: () => {}, clear: () => {} }
  let drawnAt = Number.NEGATIVE_INFINITY
  return {
    isShown: true,
    show(done, total) {
      if (performance.now() - drawnAt < REDRAW_MS && done < total) return
      drawnAt = performance.now()
      stream.write(`\r\x1b[K${action} ${formatBar(done, total)}`)
    },
    clear: () => void stream.write('\r\x1b[K'),
  }
}

/** `[######------] 50 %  1,000 of 2,000`: never more than all, although what is counted beforehand may grow. */
export function formatBar(done: number, total: number): string {
  const all = Math.max(done, total, 1)
  const filled = Math.floor((done / all) * BAR_WIDTH)
  const bar = '#'.repeat(filled) + '-'.repeat(BAR_WIDTH - filled)
  const percent = Math.floor((done / all) * 100)
  return `[${bar}] ${percent} %  ${formatCount(done)} of ${formatCount(Math.max(done, total))}`
}

/** `1,234,567` */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}
