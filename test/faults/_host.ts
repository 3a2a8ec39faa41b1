import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { programArguments } from '../_program.ts'
import type { HostConfig } from './_server.ts'

/** A running host. */
export interface Host {
  readonly port: number
  readonly pid: number
  /** Fails when the process has ended or has written anything, because the process writes only errors. */
  assertUnharmed(): void
  stop(): Promise<void>
}

const PROGRAM = join(import.meta.dirname, '_server.ts')
const START_TIMEOUT_MS = 60_000

/** Starts `_server.ts`. */
export async function startHost(config: HostConfig): Promise<Host> {
  const child = spawn(process.execPath, [...programArguments(PROGRAM), JSON.stringify(config)])
  let written = ''
  child.stderr.on('data', (chunk: Buffer) => {
    written += chunk.toString()
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS)
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(() => Promise.reject(new Error(`Cannot start the host: ${written}`))),
  ])
  clearTimeout(timer)

  return {
    port: JSON.parse(String(line)).port,
    pid: child.pid ?? Number.NaN,
    assertUnharmed() {
      assert.equal(written, '', 'the host wrote to stderr')
      assert.equal(child.exitCode ?? child.signalCode, null, 'the host has ended')
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.stdin.end()
      await exited
    },
  }
}
