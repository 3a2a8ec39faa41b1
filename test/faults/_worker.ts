import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { programArguments } from '../_program.ts'

/** A program of this folder that a test starts, kills and starts again. */
export interface Worker {
  /** How often the program was killed. */
  readonly kills: number
  /** Starts the program; resolves with the first line that it prints. */
  start(): Promise<void>
  /** Kills the program (SIGKILL); resolves when the process has ended. */
  kill(): Promise<void>
  /** Sends a line of the program's standard input. */
  send(line: string): void
  /** Resolves when the program, or a later start of the program, has printed a line; also at once. */
  printed(line: string, timeoutMs: number): Promise<void>
  /** Fails if the program has ended by itself. */
  assertUnharmed(): void
}

const START_TIMEOUT_MS = 60_000

/** @param config goes to the program as JSON */
export function createWorker(file: string, config: object): Worker {
  const printed = new Set<string>()
  const events = new EventEmitter().setMaxListeners(0)
  let child: ChildProcessByStdio<Writable, Readable, Readable> | undefined
  let killed: unknown
  let harm: string | undefined
  let kills = 0

  return {
    get kills() {
      return kills
    },
    async start() {
      const path = join(import.meta.dirname, file)
      const started = spawn(process.execPath, [...programArguments(path), JSON.stringify(config)])
      child = started
      let written = ''
      started.stderr.on('data', (chunk: Buffer) => {
        written += chunk.toString()
      })
      // A line may be sent to a process that is being killed.
      started.stdin.on('error', () => {})
      started.on('close', (code, signal) => {
        if (killed !== started) harm ??= `${file} has ended with ${code ?? signal}: ${written}`
        events.emit('line')
      })
      const lines = createInterface({ input: started.stdout })
      lines.on('line', (line) => {
        printed.add(line)
        events.emit('line')
      })
      await Promise.race([once(lines, 'line'), once(started, 'close'), timeout(START_TIMEOUT_MS)])
    },
    async kill() {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
      killed = child
      kills++
      child.kill('SIGKILL')
      await once(child, 'close')
    },
    send(line) {
      child?.stdin.write(`${line}\n`)
    },
    async printed(line, timeoutMs) {
      const deadline = performance.now() + timeoutMs
      while (!printed.has(line)) {
        if (harm !== undefined) throw new Error(harm)
        if (performance.now() > deadline)
          throw new Error(`${file} has not printed ${line} in ${timeoutMs} ms`)
        await Promise.race([once(events, 'line'), timeout(100)])
      }
    },
    assertUnharmed() {
      if (harm !== undefined) throw new Error(harm)
    },
  }
}

function timeout(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false })
}
