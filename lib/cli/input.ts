import { createInterface } from 'node:readline'
import type { Input } from './terminal.ts'

/** Reads lines from a stream of the process. Doesn't read anything until the first question. */
export function createInput(stream: NodeJS.ReadStream): Input {
  return {
    isTTY: stream.isTTY,
    stream: () => stream,
    readLine() {
      const lines = createInterface({ input: stream })
      const answer = new Promise<string | null>((resolve) => {
        lines.once('line', resolve).once('close', () => resolve(null))
      })
      return answer.finally(() => lines.close())
    },
  }
}
