/** Tells on stderr what is being done, so that stdout holds nothing but the result. */
export interface Progress {
  /** A new step begins. */
  step(text: string): void
  /** How far the step has come; shown on a terminal only. */
  count(done: number, total: number): void
  /** Leaves an empty line behind on a terminal. */
  clear(): void
}

/** One line that is written over again on a terminal; a line for each step where the output is kept. */
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
