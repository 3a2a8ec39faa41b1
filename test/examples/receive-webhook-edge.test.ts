import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import subscriber, { type Bindings } from '../../examples/receive-webhook-edge.ts'
import type { Event } from '../../lib/client.ts'
import { signWebhook } from '../../lib/webhooks.ts'
import { call } from './_host.ts'
import { bodyOf, listen, startPlatform, type TestPlatform } from './_platform.ts'

// The subscriber of an edge runtime: in a context without Node, as a bundler delivers it, and against the real API.

const ROOT = join(import.meta.dirname, '../..')
const SECRET = 'whsec_current'

/** A queue that remembers the events; rejects while `fault` is set. */
function createQueue() {
  const events: Event[] = []
  const queue = {
    events,
    fault: null as Error | null,
    async send(event: Event) {
      if (queue.fault) throw queue.fault
      events.push(event)
    },
  }
  return queue
}

const created = (id: string): string => bodyOf(id, 'client.created', { text: 'é 🏺' })

function webhook(body: string, secrets: string | string[] = SECRET, at?: number): Request {
  const headers = { 'X-SERVICE-Signature': signWebhook(body, secrets, at) }
  return new Request('https://edge.example/hooks', { method: 'POST', body, headers })
}

describe('examples/receive-webhook-edge in a context without Node', () => {
  let edge: typeof subscriber
  const printed: string[] = []

  before(async () => {
    const { outputFiles, metafile } = await build({
      entryPoints: [join(ROOT, 'examples/receive-webhook-edge.ts')],
      absWorkingDir: ROOT,
      bundle: true,
      platform: 'neutral',
      format: 'iife',
      globalName: 'edge',
      metafile: true,
      write: false,
      logLevel: 'silent',
    })
    const imported = Object.values(metafile.inputs).flatMap(({ imports }) => imports)
    assert.deepEqual(
      imported.filter(({ external }) => external),
      [],
      'nothing of Node and no package',
    )
    const context = createContext({
      ...{ crypto, Request, Response, TextDecoder, TextEncoder, Uint8Array, ArrayBuffer },
      console: { error: (...words: unknown[]) => printed.push(words.join(' ')) },
    })
    edge = runInContext(`${outputFiles[0]?.text}; edge.default`, context)
  })

  test('examples/receive-webhook-edge hands a signed event to the queue, and answers 204', async () => {
    const EVENTS = createQueue()
    const bindings: Bindings = { SIGNING_SECRET: SECRET, EVENTS }
    const answer = await edge.fetch(webhook(created('evt_1')), bindings)
    assert.deepEqual([answer.status, await answer.text()], [204, ''])
    assert.deepEqual(
      EVENTS.events.map(({ id, type }) => [id, type]),
      [['evt_1', 'client.created']],
    )
  })

  test('examples/receive-webhook-edge accepts either of two secrets', async () => {
    const EVENTS = createQueue()
    const bindings: Bindings = { SIGNING_SECRET: `whsec_next,${SECRET}`, EVENTS }
    for (const secret of ['whsec_next', SECRET]) {
      assert.equal((await edge.fetch(webhook(created('evt_2'), secret), bindings)).status, 204)
    }
    assert.equal(EVENTS.events.length, 2)
  })

  test('examples/receive-webhook-edge rejects what is not a signed event, and queues nothing', async () => {
    const EVENTS = createQueue()
    const body = created('evt_3')
    const now = Math.floor(Date.now() / 1000)
    const unsigned = new Request('https://edge.example/', { method: 'POST', body })
    const refused: readonly [Request, number, string][] = [
      [unsigned, 400, 'signature_missing'],
      [webhook(body, 'whsec_other'), 400, 'signature_mismatch'],
      [webhook(body, SECRET, now - 400), 400, 'signature_expired'],
      [webhook('null'), 400, 'webhook_malformed'],
      [webhook(body.padEnd(1024 * 1024 + 1)), 413, 'webhook_too_large'],
      [new Request('https://edge.example/'), 405, 'webhook_method'],
    ]
    for (const [request, status, code] of refused) {
      const before = printed.length
      assert.equal((await edge.fetch(request, { SIGNING_SECRET: SECRET, EVENTS })).status, status, code)
      assert.deepEqual(printed.slice(before), [`Refused a webhook: ${code}`])
    }
    assert.deepEqual(EVENTS.events, [])
  })

  test('examples/receive-webhook-edge answers 500 when the queue fails or no secret is set', async () => {
    const EVENTS = createQueue()
    EVENTS.fault = new Error('the queue is full')
    const failed = await edge.fetch(webhook(created('evt_4')), { SIGNING_SECRET: SECRET, EVENTS })
    assert.equal(failed.status, 500)
    assert.match(printed.at(-1) ?? '', /^Cannot take a webhook: Error: the queue is full/)
    EVENTS.fault = null
    const unset = await edge.fetch(webhook(created('evt_4')), { SIGNING_SECRET: '', EVENTS })
    assert.equal(unset.status, 500)
    assert.deepEqual(EVENTS.events, [])
  })
})

describe('examples/receive-webhook-edge with the real API', () => {
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  test('examples/receive-webhook-edge gets an event again until the queue has it', async (t) => {
    t.mock.method(console, 'error', () => {})
    const EVENTS = createQueue()
    const bindings = { SIGNING_SECRET: '', EVENTS }
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const headers = Object.entries(request.headersDistinct).flatMap(([name, values = []]) =>
        values.map((value) => [name, value] as [string, string]),
      )
      const init = { method: request.method ?? '', headers, body: Buffer.concat(chunks) }
      const { status } = await subscriber.fetch(new Request('http://edge.example/', init), bindings)
      response.writeHead(status).end()
    })
    t.after(() => server.close())
    bindings.SIGNING_SECRET = await platform.register(await listen(server))
    EVENTS.fault = new Error('the queue is full')
    await call(`${platform.url}/api/v1/clients`, platform.key, { name: 'Atlas' })
    await platform.deliver()
    assert.deepEqual(EVENTS.events, [])
    EVENTS.fault = null
    await platform.redeliverAll()
    await platform.deliver()
    assert.deepEqual(EVENTS.events.map(({ type }) => type).toSorted(), ['business.created', 'client.created'])
  })
})
