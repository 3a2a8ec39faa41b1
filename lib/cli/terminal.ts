import type { Readable } from 'node:stream'

/** One of the process's output streams. Tests can replace it. */
export interface Output {
  /** @param done called when the text has been written, or with an error if that failed */
  write(text: string, done?: (error?: Error | null) => void): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** The process's input stream. */
export interface Input {
  readonly isTTY?: boolean | undefined
  /** The entire input, for commands that read records. */
  stream(): Readable
  /** Reads the next line without its line break. Resolves with `null` at the end of the input. */
  readLine(): Promise<string | null>
}

/** A signal that asks the process to stop. */
export type Signal = 'SIGINT' | 'SIGTERM'

/** The parts of the process that commands use. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Input
  /** For results. */
  readonly stdout: Output
  /** For everything else. */
  readonly stderr: Output
  readonly signals: {
    on(signal: Signal, listener: () => void): unknown
    off(signal: Signal, listener: () => void): unknown
  }
  /** Ends the process immediately, no matter what it's doing. */
  exit(code: number): void
}
