import { createInterface } from 'node:readline'
import type { Input } from './terminal.ts'

/** Reads lines from one of the process's streams. Doesn't start reading until the first question. */
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
