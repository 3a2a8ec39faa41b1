/** Shows the current step on stderr, so that stdout only has the result. */
export interface Progress {
  /** Starts a new step. */
  step(text: string): void
  /** Shows the progress of the step, but only on a terminal. */
  count(done: number, total: number): void
  /** Clears the line on a terminal. */
  clear(): void
}

/** On a terminal, overwrites a single line. Otherwise, prints a line for each step. */
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
