import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../../lib/postgres.ts'
import type { AttemptResult, Claims } from '../../../lib/webhooks/claims.ts'
import { makeManyDeliveries, organizationOf } from '../../_many-deliveries.ts'
import { percentile } from '../../_percentile.ts'
import { newEvent } from './parts.ts'

// The cost of publishing, claims, results, lists and logs in a database with ten million deliveries, while a purge runs all the
// time, and in a database without any, in turns on one server. The goal: at most 1.3 times as much. In each round the retention is a
// day shorter than in the round before, so that the purge has a day to erase.
//
//   tsx test/bench/deliveries/retained.ts 10000000

const DELIVERIES = Number(process.argv[2] ?? 1_000_000)
const DAYS = 30
const ORGANIZATIONS = 20
const ROUNDS = 5
/** Of each call in a round. */
const CALLS = 40
const BATCH = 100
const GOAL = 1.3
const DAY_MS = 86_400_000
/** As a delivery loop purges. */
const PURGE = { limit: 1000, share: 0.25 } as const
const FAILURES = { failures: 20, failingMs: DAY_MS } as const

type Times = Map<string, number[]>

const server = await startPostgres({ postgresFlags: ['-c', 'shared_buffers=1GB', '-c', 'max_wal_size=8GB'] })
try {
  const begunAt = performance.now()
  const [empty, full] = [await makeDatabase('empty', 0), await makeDatabase('full', DELIVERIES)]
  console.log(`${count(DELIVERIES)} deliveries made in ${Math.round((performance.now() - begunAt) / 1000)} s`)
  const times = { empty: new Map() as Times, full: new Map() as Times }
  // The first calls of a session plan their statements.
  for (const store of [empty, full]) await measureCalls(store, new Map())
  for (let round = 1; round <= ROUNDS; round++) {
    const purge = startPurge(full, (DAYS - round) * DAY_MS)
    await measureCalls(empty, times.empty)
    await measureCalls(full, times.full)
    console.log(`round ${round} of ${ROUNDS}: the purge erased ${await purge.stop()}`)
  }
  for (const [call, ofEmpty] of times.empty) {
    const [base, ms] = [ofEmpty, times.full.get(call) ?? []].map((values) => percentile(values, 0.5))
    const ratio = (ms ?? Number.NaN) / (base ?? Number.NaN)
    // Activity has no ratio: an empty database has no hours to add up.
    const goal = call.startsWith('activity') ? '' : `, goal ${GOAL} ${ratio <= GOAL ? 'met' : 'MISSED'}`
    console.log(
      `${call.padEnd(32)} ${base?.toFixed(2)} ms empty, ${ms?.toFixed(2)} ms with ${count(DELIVERIES)}: ` +
        `ratio ${ratio.toFixed(2)}${goal}`,
    )
  }
  await Promise.all([empty.close(), full.close()])
} finally {
  await server.stop()
}

async function makeDatabase(name: string, events: number): Promise<PostgresStore> {
  const admin = postgres(server.url, { max: 1 })
  await admin`create database ${admin(name)}`
  await admin.end()
  const url = new URL(server.url)
  url.pathname = `/${name}`
  await migrate(url.href)
  const sql = postgres(url.href, { max: 1, onnotice: () => {} })
  await makeManyDeliveries(sql, { events, days: DAYS, organizations: ORGANIZATIONS })
  await sql.end()
  return createPostgresStore(url.href)
}

/** Purges until stopped, as delivery loops do. */
function startPurge(store: PostgresStore, eventsAfterMs: number): { stop(): Promise<string> } {
  let isStopped = false
  let erased = 0
  let parts = 0
  const running = (async () => {
    while (!isStopped) {
      const { events, waitMs } = await store.deliveries.continuePurge({ eventsAfterMs, ...PURGE })
      erased += events
      parts++
      await new Promise((resolve) => setTimeout(resolve, Math.max(waitMs, 5)))
    }
  })()
  return {
    async stop() {
      isStopped = true
      await running
      return `${count(erased)} events in ${parts} parts`
    },
  }
}

/** Makes every call a number of times, and adds the times in milliseconds. */
async function measureCalls(store: PostgresStore, times: Times): Promise<void> {
  const organizationId = organizationOf(0)
  const [{ endpointId = '' } = {}] = await onePublished(store, organizationId)
  const list = (states?: readonly ['failed']) =>
    store.deliveries.list(organizationId, { endpointId, ...(states && { states }) }, 50, null)
  for (let call = 0; call < CALLS; call++) {
    await timed(times, 'publish', () => store.events.publish(organizationId, newEvent()))
    for (let event = 0; event < BATCH; event++) {
      await store.events.publish(organizationOf(event % ORGANIZATIONS), newEvent())
    }
    const claims = await timed(times, `claim of ${BATCH}`, () => claim(store, BATCH))
    await timed(times, `results of ${BATCH}`, () => record(store, claims))
    const [one] = claims.deliveries
    if (!one) throw new Error('Cannot measure the log of a delivery because nothing was claimed')
    await deliverRest(store)
    await timed(times, "list of an endpoint's deliveries", () => list())
    await timed(times, 'list of failed deliveries', () => list(['failed']))
    await timed(times, 'log of a delivery', () => store.deliveries.get(one.organizationId, one.id))
    for (const days of [1, 30])
      await timed(times, `activity of ${days} days`, () => readActivity(store, days))
    await timed(times, 'log of events', () => store.eventLog.list(organizationId, {}, 50, null))
  }
}

function readActivity(store: PostgresStore, days: number): Promise<unknown> {
  const hour = Math.floor(Date.now() / 3_600_000 + 1) * 3_600_000
  return store.deliveries.readActivity({
    organizationId: organizationOf(0),
    endpointId: null,
    from: new Date(hour - days * DAY_MS).toISOString(),
    to: new Date(hour).toISOString(),
    interval: days === 1 ? 'hour' : 'day',
  })
}

async function onePublished(store: PostgresStore, organizationId: string): Promise<Claims['deliveries']> {
  await store.events.publish(organizationId, newEvent())
  const claims = await claim(store, BATCH)
  await record(store, claims)
  return claims.deliveries
}

async function deliverRest(store: PostgresStore): Promise<void> {
  const claims = await claim(store, 1000)
  if (claims.deliveries.length === 0) return
  await record(store, claims)
  await deliverRest(store)
}

async function timed<Result>(times: Times, call: string, work: () => Promise<Result>): Promise<Result> {
  const begunAt = performance.now()
  const result = await work()
  const known = times.get(call) ?? []
  known.push(performance.now() - begunAt)
  times.set(call, known)
  return result
}

function claim(store: PostgresStore, limit: number): Promise<Claims & { readonly token: string }> {
  const token = randomUUID()
  const capacity = { endpoint: limit, organization: limit, endpoints: {}, organizations: {} }
  return store.deliveries
    .claim({
      token,
      isRepeat: false,
      limit,
      maxBytes: 8 * 1024 * 1024,
      capacity,
      scanLimit: 1000,
      cursor: null,
      leaseMs: 60_000,
      maxAttempts: 5,
    })
    .then((claims) => ({ ...claims, token }))
}

async function record(
  store: PostgresStore,
  { deliveries, token }: Claims & { readonly token: string },
): Promise<void> {
  const results = deliveries.map(
    ({ organizationId, id }): AttemptResult => ({
      organizationId,
      deliveryId: id,
      token,
      outcome: 'delivered',
      reason: null,
      isGone: false,
      delayMs: 0,
      backOffMs: null,
      startedAgoMs: 30,
      endedAgoMs: 10,
      durationMs: 20,
      dnsMs: null,
      connectMs: null,
      tlsMs: null,
      firstByteMs: 15,
      status: 200,
      error: null,
      bodyExcerpt: 'ok',
    }),
  )
  await store.deliveries.writeResults(results, FAILURES)
}

function count(number: number): string {
  return number.toLocaleString('en-US')
}
