// Receivers with a rate limit, in real time and with default options: a quarter of an hour. Six endpoints at once: 200 events at 1/s and 1,500
// at 5/s, rejected by 429 with Retry-After, 429 without, and 503. First one process, then three, of which one is killed and started
// again. Beside them two endpoints without a limit, one of them of the same organization as a limited one, whose latency must stay as it
// was. At last the process of a probe is killed.

import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BusinessApiStore, createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { percentile } from '../_percentile.ts'
import { addEndpoint, latencies, newEvent, publish, startDeliverer } from '../bench/deliveries/parts.ts'

interface Limited {
  readonly name: string
  readonly events: number
  readonly perSecond: number
  readonly status: number
  readonly retryAfter?: string
}

const RECEIVERS: readonly Limited[] = [
  { name: 'org_429_after_1', events: 200, perSecond: 1, status: 429, retryAfter: '1' },
  { name: 'org_429_1', events: 200, perSecond: 1, status: 429 },
  { name: 'org_503_1', events: 200, perSecond: 1, status: 503 },
  { name: 'org_429_after_5', events: 1500, perSecond: 5, status: 429, retryAfter: '1' },
  { name: 'org_429_5', events: 1500, perSecond: 5, status: 429 },
  { name: 'org_503_5', events: 1500, perSecond: 5, status: 503 },
]
const TIMEOUT_MS = 15 * 60_000
/** Events of each endpoint without a limit, before the others and beside them. */
const MEASURED = 200
/** Organizations of the endpoints without a limit: one of its own, and one with a limited endpoint, which wants another type. */
const UNLIMITED = ['org_unlimited', 'org_429_5'] as const
const MEASURED_TYPE = 'invoice.paid' as const
const MEASURED_EVERY_MS = 100

describe('receivers with a rate limit', { timeout: 2 * TIMEOUT_MS }, () => {
  test('get everything from one process, and reject at most a tenth', (t) => run(t, 1))
  test('get everything from three processes, one of them killed', (t) => run(t, 3))
  test('get the next probe from another process when that of a probe is killed', killProbing)
})

/** Takes so many requests a second, each at least that long after the one before. */
async function startLimited(t: TestContext, { perSecond, status, retryAfter }: Limited) {
  const taken = new Set<string>()
  const counts = { accepted: 0, rejected: 0 }
  let last = Number.NEGATIVE_INFINITY
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const now = performance.now()
      if (now - last < 1000 / perSecond) {
        counts.rejected++
        response.writeHead(status, retryAfter === undefined ? {} : { 'Retry-After': retryAfter }).end()
        return
      }
      last = now
      counts.accepted++
      taken.add(String(request.headers['x-service-event-id']))
      response.end()
    })
  })
  return { taken, counts, url: await listen(t, server) }
}

function listen(t: TestContext, server: ReturnType<typeof createServer>): Promise<string> {
  t.after(() => server.close())
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`),
    )
  })
}

async function start(t: TestContext) {
  const database = await createTestDatabase()
  const sql = database.sql({ max: 1 })
  const store = createPostgresStore(database.url)
  const workers: ChildProcess[] = []
  // In this order: a loop whose database is gone goes on trying.
  t.after(async () => {
    for (const worker of workers) worker.kill('SIGKILL')
    await store.close()
    await database.drop()
  })
  const startWorker = async () => workers.push(await startDeliverer(database.url))
  return { sql, store, workers, startWorker }
}

async function run(t: TestContext, processes: number): Promise<void> {
  const { sql, store, workers, startWorker } = await start(t)
  const arrived = new Map<string, bigint>()
  const unlimited = createServer((request, response) => {
    arrived.set(String(request.headers['x-service-event-id']), process.hrtime.bigint())
    request.resume().on('end', () => response.end())
  })
  const unlimitedUrl = await listen(t, unlimited)
  for (const id of UNLIMITED) await addEndpoint(store, id, unlimitedUrl, { types: [MEASURED_TYPE] })
  while (workers.length < processes) await startWorker()
  const alone = await measure(store, arrived)

  const receivers = await Promise.all(RECEIVERS.map((limited) => startLimited(t, limited)))
  for (const [place, { name, events }] of RECEIVERS.entries()) {
    await addEndpoint(store, name, receivers[place]?.url ?? '', { types: ['project.completed'] })
    const list = JSON.stringify(Array.from({ length: events }, newEvent))
    await sql`select business_api.insert_events(${name}, ${list}::text::jsonb)`
  }
  const startedAt = performance.now()
  const beside = await measure(store, arrived)
  if (processes > 1) {
    workers.shift()?.kill('SIGKILL')
    await sleep(5000)
    await startWorker()
  }
  for (let open = 1; open > 0; ) {
    await sleep(1000)
    const [row] = await sql<
      { open: number }[]
    >`select count(*)::int as open from business_api.open_deliveries`
    open = row?.open ?? 0
    assert.ok(performance.now() - startedAt < TIMEOUT_MS, `${open} deliveries are left`)
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  for (const [place, { name, events }] of RECEIVERS.entries()) {
    const { taken, counts } = receivers[place] ?? assert.fail()
    const twice = counts.accepted - taken.size
    console.log(
      `${processes} processes, ${name}: ${taken.size} of ${events}, ${counts.rejected} rejected, ${twice} twice`,
    )
    assert.equal(taken.size, events, name)
    assert.ok(counts.rejected <= events / 10, `${name}: ${counts.rejected} rejections`)
    // What the killed process had under way, the burst at most, is sent again.
    assert.ok(twice <= (processes > 1 ? 4 : 0), `${name}: ${twice} twice`)
  }
  for (const [place, id] of UNLIMITED.entries()) {
    const [before, during] = [alone[place] ?? assert.fail(), beside[place] ?? assert.fail()]
    const text = `${processes} processes: ${seconds} s; p50 of ${id} ${before.toFixed(1)}, beside ${during.toFixed(1)} ms`
    console.log(text)
    // A millisecond is the noise of two cores.
    assert.ok(during <= Math.max(before * 1.2, before + 1), text)
  }
}

/** The median latencies of the endpoints without a limit, in milliseconds. */
function measure(store: BusinessApiStore, arrived: ReadonlyMap<string, bigint>): Promise<number[]> {
  return Promise.all(UNLIMITED.map((id) => measureOne(store, id, arrived)))
}

async function measureOne(
  store: BusinessApiStore,
  organizationId: string,
  arrived: ReadonlyMap<string, bigint>,
): Promise<number> {
  const published: { id: string; at: bigint }[] = []
  for (let event = 0; event < MEASURED; event++) {
    published.push(await publish(store, organizationId, MEASURED_TYPE))
    await sleep(MEASURED_EVERY_MS)
  }
  const late = () => published.filter(({ id }) => !arrived.has(id)).length
  for (let second = 0; late() > 0; second++) {
    assert.ok(second < 60, `${late()} events have not arrived`)
    await sleep(1000)
  }
  return percentile(latencies(published, arrived), 0.5)
}

/** The receiver rejects the first request, never answers the second, and accepts the others. */
async function killProbing(t: TestContext): Promise<void> {
  const { store, workers, startWorker } = await start(t)
  const at: number[] = []
  const server = createServer((request, response) => {
    const number = at.push(performance.now())
    if (number !== 2) request.resume().on('end', () => response.writeHead(number === 1 ? 429 : 200).end())
  })
  const requests = async (count: number) => {
    for (let tries = 0; at.length < count; tries++) {
      assert.ok(tries < 600, `${at.length} requests`)
      await sleep(100)
    }
  }
  await addEndpoint(store, 'org_probed', await listen(t, server))
  await startWorker()
  await publish(store, 'org_probed')
  await requests(1)
  await publish(store, 'org_probed')
  await requests(2)
  await startWorker()
  await publish(store, 'org_probed')
  await sleep(2000)
  assert.equal(at.length, 2, 'while the probe is being sent')
  workers.shift()?.kill('SIGKILL')
  await requests(3)
  const waitedMs = (at.at(2) ?? 0) - (at.at(1) ?? 0)
  assert.ok(waitedMs > 25_000 && waitedMs < 35_000, `${waitedMs} ms: the lease of the probe`)
}
