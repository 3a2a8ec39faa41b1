import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { startReceiver } from '../sender/_receiver.ts'
import { createLocalSender, makeRequest } from '../sender/_setup.ts'
import '../tools/_install.ts'

// Attempts beside programs of other people: tracing agents in the process, and OpenSSL as the server.

const run = promisify(execFile)

const AGENTS: Readonly<Record<string, RegExp>> = {
  opentelemetry: /traceparent/,
  sentry: /baggage sentry-trace/,
  datadog: /x-datadog-trace-id.*traceparent/,
}

await run('npm', ['run', 'build'], { cwd: join(import.meta.dirname, '../..') })

for (const [agent, added] of Object.entries(AGENTS))
  test(`a webhook has no header of ${agent}, which adds headers to the other requests of the process`, async (context) => {
    const receiver = await startReceiver(context)
    const args = ['--import', `./_${agent}.mjs`, './_send.mjs', receiver.origin]
    await run(process.execPath, args, { cwd: import.meta.dirname })
    const [host, webhook] = receiver.requests.map(({ headers }) => Object.keys(headers).join(' '))
    assert.match(host ?? '', added)
    assert.equal(webhook, 'host connection user-agent accept x-own content-length')
  })

test('the error is tls_client_certificate_required when the server wants a client certificate', async (context) => {
  const cwd = await mkdtemp(join(tmpdir(), 'business-api-kit-'))
  const certificate =
    'req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=a -addext subjectAltName=IP:127.0.0.1'
  await run('openssl', certificate.split(' '), { cwd })
  const port = await findFreePort()
  const server = spawn(
    'openssl',
    `s_server -accept ${port} -key key.pem -cert cert.pem -Verify 1 -tls1_3`.split(' '),
    { cwd },
  )
  context.after(() => server.kill())
  await once(server.stdout, 'data')
  const sender = createLocalSender(context, { ca: (await run('cat', ['cert.pem'], { cwd })).stdout })
  const { error } = await sender.send(makeRequest(`https://127.0.0.1:${port}`))
  assert.equal(error, 'tls_client_certificate_required')
})

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
