import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const START_TIMEOUT_MS = 20_000
const STOP_TIMEOUT_MS = 5_000
const running = new Set<ChildProcess>()

/** A program of `programs/`, built, in a separate process that ends with this process. */
export interface Child {
  readonly pid: number
  /** The first message of the program. */
  readonly first: Readonly<Record<string, unknown>>
  /** Sends a message and waits for the answer. @throws when the program ends, fails or is late */
  ask<Answer>(message: object, timeoutMs: number): Promise<Answer>
  stop(): Promise<void>
}

/** Starts a program with plain Node.js, without a loader, and waits for the first message. */
export async function startChild(program: string, args: readonly string[] = []): Promise<Child> {
  const process = fork(join(import.meta.dirname, 'dist', `${program}.js`), args, {
    execArgv: [],
    env: { ...globalThis.process.env, NODE_ENV: 'production', NODE_OPTIONS: '' },
  })
  running.add(process)
  process.once('exit', () => running.delete(process))
  const first = await receive(program, process, START_TIMEOUT_MS)
  return {
    pid: process.pid ?? Number.NaN,
    first,
    ask(message, timeoutMs) {
      process.send(message)
      return receive(program, process, timeoutMs) as Promise<never>
    },
    stop: () => stop(process),
  }
}

/** Ends all programs that are still running. */
export async function stopChildren(): Promise<void> {
  await Promise.all([...running].map(stop))
}

async function receive(
  program: string,
  process: ChildProcess,
  timeoutMs: number,
): Promise<Readonly<Record<string, unknown>>> {
  const done = new AbortController()
  const { signal } = done
  const timer = setTimeout(() => done.abort(new Error(`${program} has not answered`)), timeoutMs)
  try {
    const [message] = await Promise.race([
      once(process, 'message', { signal }),
      once(process, 'exit', { signal }).then(() => Promise.reject(new Error(`${program} has ended`))),
    ])
    if (message.error !== undefined) throw new Error(`${program}: ${message.error}`)
    return message
  } catch (cause) {
    throw signal.aborted ? signal.reason : cause
  } finally {
    clearTimeout(timer)
    done.abort()
  }
}

async function stop(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return
  const ended = once(process, 'exit')
  if (process.connected) process.disconnect()
  const timer = setTimeout(() => process.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await ended
  clearTimeout(timer)
}
