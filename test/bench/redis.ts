import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import { hasProgram } from './machine.ts'

/** A Redis for the run. */
export interface Redis {
  readonly url: string
  stop(): Promise<void>
}

const START_TIMEOUT_MS = 10_000

/** Uses the server of `REDIS_URL`, or starts `redis-server` on 127.0.0.1. @returns null without both */
export async function startRedis(): Promise<Redis | null> {
  if (process.env.REDIS_URL) return { url: process.env.REDIS_URL, stop: async () => {} }
  if (!hasProgram('redis-server')) return null
  const directory = await mkdtemp(join(tmpdir(), 'bench-redis-'))
  const port = await findFreePort()
  // The log of writes is synced each second, as the documentation of BullMQ recommends for production.
  const options = {
    port,
    bind: '127.0.0.1',
    dir: directory,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const server = spawn('redis-server', args, { stdio: 'ignore' })
  process.once('exit', () => server.kill())
  const stop = async (): Promise<void> => {
    await end(server)
    await rm(directory, { recursive: true, force: true })
  }
  try {
    await waitFor(port)
    return { url: `redis://127.0.0.1:${port}`, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function waitFor(port: number): Promise<void> {
  const until = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1' })
    const opened = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (opened) return
    if (performance.now() > until) throw new Error('redis-server has not started')
    await sleep(50)
  }
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  server.kill('SIGTERM')
  await ended
}
