import type { Readable } from 'node:stream'

/** A place for text: a stream of the process, or its replacement in a test. */
export interface Output {
  /** @param done called once the text is written, or with the error that prevented it */
  write(text: string, done?: (error?: Error | null) => void): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** The source of answers to questions. */
export interface Input {
  readonly isTTY?: boolean | undefined
  /** The whole input, for a command that reads records. */
  stream(): Readable
  /** Reads the next line without its line break; null at the end of the input. */
  readLine(): Promise<string | null>
}

/** The signals that ask a process to end. */
export type Signal = 'SIGINT' | 'SIGTERM'

/** The parts of its process that a command uses. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Input
  /** Output of results. */
  readonly stdout: Output
  /** Everything else that people read. */
  readonly stderr: Output
  readonly signals: {
    on(signal: Signal, listener: () => void): unknown
    off(signal: Signal, listener: () => void): unknown
  }
  /** Ends the process at once, also in the middle of work. */
  exit(code: number): void
}
