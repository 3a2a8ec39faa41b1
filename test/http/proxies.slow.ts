import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http2 from 'node:http2'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { serve } from '../api/_api.ts'

// HAProxy accepts HTTP/2 from callers and shares its connections to the API among them.

const server = await serve(createBusinessApi(createMemoryStore(), { logger: false }))
after(() => server.close())
const proxyPort = await findFreePort()
const haproxy = await startProxy()
after(() => haproxy?.kill())

/** Returns `null` if HAProxy isn't installed. */
async function startProxy() {
  const file = join(tmpdir(), `haproxy-${proxyPort}.cfg`)
  writeFileSync(
    file,
    [
      'defaults',
      '  mode http',
      '  timeout connect 5s',
      '  timeout client 30s',
      '  timeout server 30s',
      '  http-reuse always',
      'frontend callers',
      `  bind 127.0.0.1:${proxyPort} proto h2`,
      '  default_backend api',
      'backend api',
      `  server api ${new URL(server.url).host}`,
      '',
    ].join('\n'),
  )
  const started = spawn('haproxy', ['-f', file], { stdio: 'ignore' })
  try {
    await once(started, 'spawn')
  } catch {
    return null
  }
  for (let tries = 0; tries < 100; tries++) {
    const socket = net.connect(proxyPort, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return started
}

for (const length of ['100', '10000000', undefined]) {
  test(`A POST without a key whose body of ${length ?? 'unknown'} bytes stops early doesn't hold up other callers`, async (t) => {
    if (!haproxy) return t.skip("haproxy isn't installed")
    const address = `http://127.0.0.1:${proxyPort}`
    const [hostile, other] = [http2.connect(address), http2.connect(address)]
    t.after(() => {
      hostile.destroy()
      other.destroy()
    })
    const post = hostile.request(
      {
        ':method': 'POST',
        ':path': '/api/v1/clients',
        'content-type': 'application/json',
        ...(length === undefined ? {} : { 'content-length': length }),
      },
      { endStream: false },
    )
    post.on('error', () => {})
    assert.equal(await statusOf(post), 401)
    post.end()
    const begunAt = performance.now()
    const gets = Array.from({ length: 8 }, () => statusOf(other.request({ ':path': '/openapi.json' })))
    assert.deepEqual(await Promise.all(gets), Array(8).fill(200))
    assert.ok(performance.now() - begunAt < 1500, `${performance.now() - begunAt} ms`)
  })
}

/** Reads a response to the end and returns its status, or the code of the error. */
function statusOf(stream: http2.ClientHttp2Stream): Promise<unknown> {
  return new Promise((resolve) => {
    let status: unknown
    stream
      .on('response', (headers) => {
        status = headers[':status']
      })
      .on('end', () => resolve(status))
      .on('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
      .resume()
  })
}
