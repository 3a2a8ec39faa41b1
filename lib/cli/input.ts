import { createInterface } from 'node:readline'
import type { Input } from './terminal.ts'

/** The lines that a stream of the process brings. Reads nothing before the first question. */
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
