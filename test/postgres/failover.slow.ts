import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from '../faults/_fixture.ts'
import { POOLERS } from '../faults/_poolers.ts'
import { type ReplicatedServer, startPrimary, startReplica } from './_replica.ts'

// A primary and a streaming replica switch roles behind an address while callers keep sending requests.

const CALLERS = 8
/** How long the address points to a server in recovery, in ms. */
const READ_ONLY_MS = 3000
/** Maximum time until requests succeed once the address points to a primary, in ms. */
const SERVED_WITHIN_MS = 5000

describe('failover to a streaming replica', () => {
  let first: ReplicatedServer
  let second: ReplicatedServer
  let address: Forwarder
  let key: string

  before(async () => {
    first = await startPrimary()
    await migrate(first.url)
    key = (await makeApiKey(first.url, 'org_failover')).key
    second = await startReplica(first)
    address = await startForwarder(first.port)
  })
  after(async () => {
    await address?.close()
    await second?.remove()
    await first?.remove()
  })

  const urlOf = (...ports: number[]): string => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join()
    return first.url.replace(/127\.0\.0\.1:\d+/, hosts)
  }

  test('one address: 503 while it points to a server in recovery, and normal service with a primary', async (t) => {
    const store = createPostgresStore(urlOf(address.port))
    t.after(() => store.close())
    const calls = callAllTheTime(t, store, key)
    await calls.untilServed()

    // The primary goes down, and the address points to the replica, which is still in recovery.
    await first.stopServer()
    address.leadTo(second.port)
    await sleep(READ_ONLY_MS)
    calls.report(t, 'replica in recovery', [503])
    await promote(second)
    await calls.untilServed()
    calls.report(t, 'replica promoted', [200, 503])

    // The former primary comes back as a standby, and the address points to it for a while.
    await first.follow(second)
    await first.startServer()
    address.leadTo(first.port)
    address.reset()
    await sleep(100)
    calls.clear()
    await sleep(READ_ONLY_MS)
    calls.report(t, 'former primary in recovery', [503])

    // New connections go to the new primary, but connections to the former primary stay open.
    address.leadTo(second.port)
    await calls.untilServed()
    calls.clear()
    await sleep(1000)
    calls.report(t, 'new primary', [200])
  })

  test('several hosts: target_session_attrs finds the primary, other connections use any host', async (t) => {
    // `first` is now a standby.
    const both = urlOf(first.port, second.port)
    for (const [target, isServed] of [
      ['read-write', true],
      ['primary', true],
      // A statement rejected by a standby is retried once on the next server.
      ['any', true],
      ['standby', false],
      ['prefer-standby', false],
    ] as const) {
      const url = `${both}?target_session_attrs=${target}`
      const store = createPostgresStore(url)
      t.after(() => store.close())
      const list = openList(store, key)
      assert.equal(await list(), isServed ? 200 : 503, target)
      if (isServed && target !== 'any') assert.deepEqual((await migrate(url)).applied, [])
    }
  })

  test('several hosts: service returns after another switchover', async (t) => {
    const store = createPostgresStore(`${urlOf(first.port, second.port)}?target_session_attrs=read-write`)
    t.after(() => store.close())
    const calls = callAllTheTime(t, store, key)
    await calls.untilServed()
    await second.stopServer()
    await promote(first)
    await calls.untilServed()
    calls.report(t, 'changed places', [200, 503])
  })
})

for (const [name, { needs, options, start }] of Object.entries(POOLERS)) {
  describe(`failover of a named installation behind ${name}`, needs, () => {
    test('its loop continues with the promoted replica, and a loop with another name still waits', async (t) => {
      const first = await startPrimary()
      t.after(() => first.remove())
      await migrate(first.url)
      const address = await startForwarder(first.port)
      t.after(() => address.close())
      const pooler = await start([{ url: first.url.replace(`:${first.port}`, `:${address.port}`) }], 8)
      t.after(() => pooler.close())
      let received = 0
      const subscriber = createHttpServer((incoming, response) => {
        received++
        incoming.resume().on('end', () => response.writeHead(204).end())
      }).listen(0, '127.0.0.1')
      await once(subscriber, 'listening')
      t.after(() => subscriber.close())

      await using store = createPostgresStore(pooler.urls[0] ?? '', options)
      const { port } = subscriber.address() as AddressInfo
      const lenient = { allowPlaintextSecrets: true, allowHttp: true, allowPrivateNetworks: true }
      await createDeveloperSettings(store, lenient).endpoints.register('org_a', {
        url: `http://127.0.0.1:${port}/`,
      })
      await using sender = createWebhookSender({ localDevelopment: true })
      const loopOf = (installation: string) =>
        createDeliveryLoop(store, sender, { installation, allowPlaintextSecrets: true, logger: false })
      await using loop = loopOf('production')
      loop.start()
      const publish = () => createPlatform(store).businesses.create('org_a', { name: 'Atlas' })
      await publish()
      await until('the loop delivers', () => received === 1, 10_000)

      const second = await startReplica(first)
      t.after(() => second.remove())
      await publish()
      await until('the loop delivers', () => received === 2, 10_000)
      await first.stopServer()
      await promote(second)
      address.leadTo(second.port)
      address.reset()
      const isPublished = () =>
        publish().then(
          () => true,
          () => false,
        )
      await until('the promoted replica is written to', isPublished, 30_000)
      // A delivery whose result was lost with the first server is sent again.
      await until('the loop delivers', () => received >= 3, 30_000)
      assert.equal(loop.health().heldBecause, null)
      await assert.rejects(loopOf('staging').runOnce(), { code: 'invalid_state', message: /'production'/ })
      const found = await store.installation.check('production')
      assert.deepEqual(found, { name: 'production', isMoved: false })
    })
  })
}

async function promote(server: ReplicatedServer): Promise<void> {
  const sql = postgres(server.url, { max: 1 })
  await sql`select pg_promote()`
  await sql.end()
}

function openList(store: PostgresStore, key: string): () => Promise<number> {
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const headers = { authorization: `Bearer ${key}` }
  return async () => (await api(new Request('http://localhost/api/v1/clients', { headers }))).status
}

interface Calls {
  /** Waits until every caller gets successful responses, and fails if that takes too long. */
  untilServed(): Promise<void>
  clear(): void
  /** Reports how often each status was returned since the last report, and fails if one of them isn't expected. */
  report(t: TestContext, phase: string, expected: readonly number[]): void
}

function callAllTheTime(t: TestContext, store: PostgresStore, key: string): Calls {
  const list = openList(store, key)
  let statuses: number[] = []
  let isOver = false
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      statuses.push(await list())
      await sleep(20)
    }
  })
  t.after(async () => {
    isOver = true
    await Promise.all(callers)
  })

  return {
    async untilServed() {
      const ms = await until(
        'all is served',
        async () => {
          const seen = statuses.length
          await until('every caller was answered', () => statuses.length >= seen + 2 * CALLERS, 10_000)
          return statuses.slice(seen).every((status) => status === 200)
        },
        SERVED_WITHIN_MS,
      )
      t.diagnostic(`all served within ${Math.round(ms)} ms`)
    },
    clear() {
      statuses = []
    },
    report(context, phase, expected) {
      const counts = expected.map(
        (status) => `${statuses.filter((one) => one === status).length} × ${status}`,
      )
      context.diagnostic(`${phase}: ${counts.join(', ')}`)
      const unexpected = statuses.filter((status) => !expected.includes(status))
      // The first responses of a phase may still belong to requests of the previous phase.
      assert.deepEqual(
        unexpected.filter((status) => status !== 200),
        [],
        phase,
      )
      assert.ok(unexpected.length < statuses.length, phase)
      statuses = []
    },
  }
}

/** An address that can point new connections to another server at any time. */
interface Forwarder {
  readonly port: number
  /** Changes the target of new connections. Open connections aren't affected. */
  leadTo(port: number): void
  /** Breaks all connections. */
  reset(): void
  close(): Promise<void>
}

async function startForwarder(target: number): Promise<Forwarder> {
  let port = target
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(from)
          to.destroy()
        })
        .pipe(to)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    leadTo(next) {
      port = next
    },
    reset() {
      for (const socket of sockets) socket.destroy()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
