import assert from 'node:assert/strict'
import { tracingChannel } from 'node:diagnostics_channel'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { channels, type RequestTrace, trace, traceStore } from '../../lib/base/tracing.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, type WebhookSender } from '../../lib/webhooks.ts'

test('nothing is described without a subscriber', async () => {
  const describe = (): never => assert.fail('described')
  assert.equal(await trace(channels.request, describe, async (traced) => traced), undefined)
})

test('a subscriber receives the same object throughout, which is filled in as the work progresses', async () => {
  const seen: object[] = []
  const subscribers = {
    start: (message: object) => void seen.push(message),
    end: () => {},
    asyncStart: () => {},
    asyncEnd: (message: object) => void seen.push(message),
    error: () => {},
  }
  const channel = tracingChannel('business-api:request')
  channel.subscribe(subscribers)
  await trace(
    channels.request,
    (): RequestTrace => ({ method: 'GET', path: '/' }),
    async (traced) => {
      if (traced) traced.status = 200
    },
  )
  channel.unsubscribe(subscribers)
  assert.equal(seen.length, 2)
  assert.equal(seen[0], seen[1])
  assert.equal(Reflect.get(seen[1] ?? {}, 'status'), 200)
})

test('trace() returns the result of the work to the caller but not to subscribers', async () => {
  const channel = tracingChannel('business-api:request')
  const seen: object[] = []
  const note = (message: object): void => {
    seen.push({ ...message })
  }
  const subscribers = { start: note, end: note, asyncStart: note, asyncEnd: note, error: note }
  channel.subscribe(subscribers)
  const answer = { email: 'atlas@example.com' }
  const describe = (): RequestTrace => ({ method: 'GET', path: '/' })
  assert.equal(await trace(channels.request, describe, async () => answer), answer)
  const failure = new Error('down')
  const failing = trace(channels.request, describe, () => {
    throw failure
  })
  await assert.rejects(failing, failure)
  channel.unsubscribe(subscribers)
  assert.doesNotMatch(JSON.stringify(seen), /atlas/)
  assert.equal(seen.filter((message) => Reflect.get(message, 'error') === failure).length > 0, true)
})

test("traceStore() supports class methods, methods replaced later and properties that aren't methods", async () => {
  class Slice {
    readonly #answer = 'private'
    async list(): Promise<string> {
      return this.#answer
    }
    watch(): number {
      return 1
    }
  }
  const store = { clients: new Slice(), close: () => 'closed', version: 3 }
  const traced = traceStore(store)
  assert.equal(await traced.clients.list(), 'private')
  assert.equal(traced.clients.watch(), 1)
  assert.equal(traced.close(), 'closed')
  assert.equal(traced.version, 3)
  store.clients.list = async () => 'replaced'
  assert.equal(await traced.clients.list(), 'replaced')
})

test('a store call is published with its slice, method and failure', async () => {
  const seen: unknown[] = []
  const subscribers = {
    start: (message: object) => void seen.push({ ...message }),
    end: () => {},
    asyncStart: () => {},
    asyncEnd: () => {},
    error: (message: { error: unknown }) => void seen.push(message.error),
  }
  const failure = new Error('down')
  const store = traceStore({ clients: { list: () => Promise.reject(failure) } })
  const channel = tracingChannel('business-api:store')
  channel.subscribe(subscribers)
  await assert.rejects(store.clients.list(), failure)
  channel.unsubscribe(subscribers)
  assert.deepEqual(seen, [{ slice: 'clients', verb: 'list' }, failure])
})

test('a listener to all channels never receives a record, reply or webhook body', async () => {
  const store = createMemoryStore()
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, localDevelopment: true })
  const { key } = await settings.apiKeys.create('org_1', {
    name: 'Test',
    scopes: ['clients:read', 'clients:write'],
  })
  const { secret } = await settings.endpoints.register('org_1', { url: 'https://127.0.0.1/in' })
  const sender: WebhookSender = {
    send: async () => ({ status: 200, error: null, bodyExcerpt: 'Atlas was here', durationMs: 1 }),
    close: async () => {},
  }
  const api = createBusinessApi(store, { logger: false })
  const seen: unknown[] = []
  const note = (message: object): void => {
    seen.push({ ...message })
  }
  const subscribers = { start: note, end: note, asyncStart: note, asyncEnd: note, error: note }
  const names = ['request', 'store', 'attempt'].map((name) => tracingChannel(`business-api:${name}`))
  for (const name of names) name.subscribe(subscribers)
  const url = 'https://api.example/api/v1/clients'
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ name: 'Atlas', email: 'atlas@example.com' })
  assert.equal((await api(new Request(url, { method: 'POST', headers, body }))).status, 200)
  assert.match(await (await api(new Request(url, { headers }))).text(), /atlas@example\.com/)
  const loop = createDeliveryLoop(store, sender, { allowPlaintextSecrets: true, logger: false })
  assert.equal((await loop.runOnce()).delivered, 2)
  for (const name of names) name.unsubscribe(subscribers)

  const published = inspect(seen, { depth: Number.POSITIVE_INFINITY })
  for (const channel of [/path: '\/api\/v1\/clients'/, /verb: 'create'/, /type: 'client\.created'/]) {
    assert.match(published, channel)
  }
  assert.doesNotMatch(published, /atlas/i)
  assert.ok(!published.includes(key) && !published.includes(secret))
})
