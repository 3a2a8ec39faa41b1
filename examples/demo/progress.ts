/** Shows the present step on stderr, so that stdout holds only the result. */
export interface Progress {
  /** A new step begins. */
  step(text: string): void
  /** Shows the progress of the step; on a terminal only. */
  count(done: number, total: number): void
  /** Leaves an empty line behind on a terminal. */
  clear(): void
}

/** Shows a single line that is overwritten on a terminal, and a line for each step in other output. */
export function createProgress(stream: NodeJS.WriteStream): Progress {
  if (!stream.isTTY) {
    return { step: (text) => stream.write(`${text}\n`), count: () => {}, clear: () => {} }
  }
  let current = ''
  const rewrite = (text: string): void => {
    stream.write(`\r\x1b[K${text}`)
  }
  return {
    step(text) {
      current = text
      rewrite(`${text} …`)
    },
    count: (done, total) => rewrite(`${current} … ${done} of ${total}`),
    clear: () => rewrite(''),
  }
}
