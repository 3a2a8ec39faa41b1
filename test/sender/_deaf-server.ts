import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { TestContext } from 'node:test'

/** Listens with the shortest possible queue, prints the port and never accepts a connection. */
const DEAF = `
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    require('node:fs').writeSync(1, String(server.address().port))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`

/**
 * Starts a process with a port whose connection queue is full, so that the next connection hangs. Ends with the test.
 *
 * @returns the port
 */
export async function startDeafServer(context: TestContext): Promise<number> {
  const server = spawn(process.execPath, ['--eval', DEAF], { stdio: ['ignore', 'pipe', 'inherit'] })
  context.after(() => server.kill('SIGKILL'))
  const [output] = await once(server.stdout, 'data')
  const port = Number(output)
  const queued = [1, 2, 3, 4].map(() => connect(port, '127.0.0.1').on('error', () => {}))
  context.after(() => {
    for (const socket of queued) socket.destroy()
  })
  // The system itself accepts the connections that fit in the queue.
  await Promise.race(queued.map((socket) => once(socket, 'connect')))
  return port
}
