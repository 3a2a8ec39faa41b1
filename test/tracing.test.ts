import assert from 'node:assert/strict'
import { tracingChannel } from 'node:diagnostics_channel'
import { test } from 'node:test'
import { channels, type RequestTrace, trace, traceStore } from '../lib/tracing.ts'

test('nothing is described while nobody listens', async () => {
  const describe = (): never => assert.fail('described')
  assert.equal(await trace(channels.request, describe, async (traced) => traced), undefined)
})

test('a listener gets one object through all of it, filled as the work goes on', async () => {
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

test('traceStore() leaves a store as it is: verbs of classes, verbs replaced later, what is no verb', async () => {
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

test('a store call is published with its slice and verb, and its failure too', async () => {
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
