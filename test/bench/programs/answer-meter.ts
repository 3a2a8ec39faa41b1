/** Finds the end of each answer on a connection. */
export interface AnswerMeter {
  /**
   * Takes the next bytes of the connection.
   *
   * @returns the status when the answer is complete, else null
   * @throws when an answer gives no length, or is longer than the length
   */
  take(chunk: Buffer): string | null
}

/** Creates the meter of a connection. */
export function createAnswerMeter(): AnswerMeter {
  let status = ''
  let missing = 0
  let head: Buffer | null = null

  function subtract(length: number): string | null {
    missing -= length
    if (missing < 0) throw new Error('An answer is longer than its length')
    return missing === 0 ? status : null
  }

  return {
    take(chunk) {
      if (missing > 0) return subtract(chunk.length)
      const bytes: Buffer = head === null ? chunk : Buffer.concat([head, chunk])
      const end = bytes.indexOf('\r\n\r\n')
      head = end < 0 ? bytes : null
      if (end < 0) return null
      const text = bytes.toString('latin1', 0, end)
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
      if (length === undefined) throw new Error(`An answer gives no length: ${text}`)
      status = text.slice(9, 12)
      missing = end + 4 + Number(length)
      return subtract(bytes.length)
    },
  }
}
