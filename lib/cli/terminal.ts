/** Where text goes: a stream of the process, or what a test has in its place. */
export interface Output {
  /** @param done hears that it is written, or the error that has kept it from being */
  write(text: string, done?: (error?: Error | null) => void): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** The signals that ask a process to end. */
export type Signal = 'SIGINT' | 'SIGTERM'

/** What a command has of the process that it runs in. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  /** For results. */
  readonly stdout: Output
  /** For everything else that people read. */
  readonly stderr: Output
  readonly signals: {
    on(signal: Signal, listener: () => void): unknown
    off(signal: Signal, listener: () => void): unknown
  }
  /** Ends the process whatever is under way. */
  exit(code: number): void
}
