import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { type BusinessApi, createBusinessApi, SCOPES } from '../../lib/index.ts'
import { createPostgresStore, createShardedStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createDeliverySlots } from '../../lib/webhooks.ts'
import { createTestDatabase } from '../_database.ts'
import { makeOlderKey } from '../_older-key.ts'
import { createTestShards, NAMES, organizationOf, organizationOn } from '../store/_shards.ts'
import { UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { type NetworkProxy, startProxy } from './_proxy.ts'

// One of three shards is lost. Each shard is behind a network of its own.

const SHORT_MS = 1000

interface Hooks {
  after(end: () => unknown): void
}

/** Starts a host over three shards, whose process knows a key of an organization on each. */
async function startHost(t: Hooks) {
  const shards = await createTestShards()
  t.after(() => shards.drop())
  const networks = await Promise.all(shards.databases.map(({ url }) => startProxy(url)))
  t.after(() => Promise.all(networks.map((network) => network.close())))
  const store = shards.open(
    { statementTimeoutMs: SHORT_MS },
    networks.map(({ url }) => url),
  )
  t.after(() => store.close({ timeoutMs: 0 }))
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false, deadlineMs: 4000 })
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  const makeKey = async (name: (typeof NAMES)[number]): Promise<string> =>
    (await settings.apiKeys.create(organizationOn(name), { name: 'Faults', scopes: SCOPES })).key
  const [a, b, c] = [await makeKey('a'), await makeKey('b'), await makeKey('c')]
  const keys = { a, b, c }
  for (const key of Object.values(keys)) assert.equal(await list(api, key), 200)
  const [, , lost] = networks
  assert.ok(lost)
  return { shards, store, api, settings, keys, makeKey, lost }
}

async function list(api: BusinessApi, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` }
  return (await api(new Request('http://localhost/api/v1/clients', { headers }))).status
}

async function create(api: BusinessApi, key: string): Promise<number> {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
  }
  const call = { method: 'POST', headers, body: '{"name":"Atlas Ceramics"}' }
  return (await api(new Request('http://localhost/api/v1/clients', call))).status
}

/** Calls for the shards that are there, beside calls for the lost shard. @returns the statuses of each */
async function callAll(api: BusinessApi, { a, b, c }: Record<'a' | 'b' | 'c', string>) {
  const present: number[] = []
  const callers = [a, b].map(async (key) => {
    for (let round = 0; round < 60; round++) {
      present.push(...(await Promise.all([list(api, key), list(api, key), create(api, key)])))
    }
  })
  const lost = Promise.all(Array.from({ length: 20 }, (_, index) => (index % 2 ? list : create)(api, c)))
  await Promise.all(callers)
  return { present: [...new Set(present)], lost: [...new Set(await lost)] }
}

const FAULTS: Readonly<
  Record<string, { lose(network: NetworkProxy): unknown; find(network: NetworkProxy): unknown }>
> = {
  stopped: { lose: (network) => network.refuse(), find: (network) => network.accept() },
  silent: {
    lose: (network) => network.fallSilent(),
    // Connections that have fallen silent never speak again.
    find: (network) => network.speakOnNewConnections(),
  },
}

for (const [fault, { lose, find }] of Object.entries(FAULTS)) {
  test(`while a shard is ${fault}, every request for the others is answered with 200`, async (t) => {
    const { api, keys, makeKey, lost } = await startHost(t)
    const freshKey = await makeKey('a')
    await lose(lost)

    assert.deepEqual(await callAll(api, keys), { present: [200], lost: [503] })
    assert.equal(await list(api, freshKey), 200, 'a key that the process does not know')
    assert.equal(await list(api, makeOlderKey()), 503, 'a key that the lost shard may have')

    await find(lost)
    await until('the shard answers again', async () => (await list(api, keys.c)) === 200, 15_000)
    assert.deepEqual(await callAll(api, keys), { present: [200], lost: [200] })
    assert.equal(await list(api, makeOlderKey()), 401)
  })
}

test('while a shard fails over, every request for the others is answered with 200', async (t) => {
  const { api, keys, lost } = await startHost(t)
  let isOver = false
  const failingOver = (async () => {
    for (let round = 0; round < 5; round++) {
      await lost.refuse()
      await new Promise((resolve) => setTimeout(resolve, 100))
      await lost.accept()
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    isOver = true
  })()
  const statuses = new Set<number>()
  while (!isOver) {
    const { present, lost: answers } = await callAll(api, keys)
    assert.deepEqual(present, [200])
    for (const status of answers) statuses.add(status)
  }
  await failingOver
  assert.deepEqual(
    [...statuses].filter((status) => status !== 200 && status !== 503),
    [],
  )
  await until('the shard answers again', async () => (await list(api, keys.c)) === 200, 15_000)
})

test('a process that starts while a shard is silent serves the others', async (t) => {
  const { shards, keys, lost } = await startHost(t)
  lost.fallSilent()
  const urls = [...shards.databases.slice(0, 2).map(({ url }) => url), lost.url]
  const store = shards.open({ statementTimeoutMs: SHORT_MS }, urls)
  t.after(() => store.close({ timeoutMs: 0 }))
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false, deadlineMs: 4000 })
  assert.deepEqual(await Promise.all([keys.a, keys.b, keys.c].map((key) => list(api, key))), [200, 200, 503])
})

test('a process that starts while the other of two shards is silent waits a second for it', async (t) => {
  const [one, other] = [await createTestDatabase(), await createTestDatabase()]
  t.after(() => Promise.all([one.drop(), other.drop()]))
  const network = await startProxy(other.url)
  t.after(() => network.close())
  const open = () =>
    createShardedStore({ shards: { a: createPostgresStore(one.url), b: createPostgresStore(network.url) } })
  const first = open()
  const { key } = await createDeveloperSettings(first).apiKeys.create(organizationOf(2, 0), {
    name: 'Faults',
    scopes: SCOPES,
  })
  await first.close()
  network.fallSilent()
  const store = open()
  t.after(() => store.close({ timeoutMs: 0 }))
  const api = createBusinessApi(store, { logger: false })
  const startedAt = performance.now()
  assert.equal(await list(api, key), 200)
  assert.ok(performance.now() - startedAt < 2500)
})

test('while a shard is silent, the delivery loops of the others deliver', async (t) => {
  const { store, api, settings, keys, lost } = await startHost(t)
  for (const name of NAMES) {
    await settings.endpoints.register(organizationOn(name), { url: 'https://127.0.0.1:8443/' })
  }
  const delivered = new Map<string, number>()
  const slots = createDeliverySlots(32)
  const loops = store.shards.map((shard) => {
    const sender = {
      close: async () => {},
      send: async () => {
        delivered.set(shard.name, (delivered.get(shard.name) ?? 0) + 1)
        return { status: 200, error: null, bodyExcerpt: '', durationMs: 1 }
      },
    }
    return createDeliveryLoop(shard.store, sender, {
      concurrency: slots,
      allowPlaintextSecrets: true,
      logger: false,
    })
  })
  lost.fallSilent()
  for (const loop of loops) loop.start()
  t.after(() => Promise.all(loops.map((loop) => loop.stop({ timeoutMs: 0 }))))
  for (let count = 0; count < 20; count++) {
    assert.deepEqual([await create(api, keys.a), await create(api, keys.b)], [200, 200])
  }
  // Each create publishes two events.
  await until('everything is delivered', () => delivered.get('a') === 40 && delivered.get('b') === 40, 20_000)
  assert.equal(delivered.get('c'), undefined)
})
