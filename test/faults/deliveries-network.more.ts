import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { setScene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { startProxy } from './_proxy.ts'
import { createPublished, publishBurst } from './_publishers.ts'
import { assertDelivered, describeTally, untilDelivered } from './_tally.ts'

// With the default leases, the loop must not repeat a sent delivery, even if statements of the loop fail.

const database = await createTestDatabase()
const proxy = await startProxy(database.url)
const scene = await setScene({ after: (end) => after(end) }, database.url)
after(() => proxy.close())
after(() => database.drop())

const ORGANIZATIONS = ['org_one', 'org_two']
/** Shorter than the default of five seconds, to save the tests' time. */
const STATEMENT_TIMEOUT_MS = 1000
const KILLS = 20

for (const organizationId of ORGANIZATIONS) await scene.subscribe(organizationId, 'slow?ms=40')
const deliverer = await scene.startDeliverer({
  databaseUrl: proxy.url,
  store: { statementTimeoutMs: STATEMENT_TIMEOUT_MS },
})
const published = createPublished()

test('the connections of the store are killed at random: everything arrives, once', async (t) => {
  await publishUntilMidway(1000)
  let kills = 0
  while (kills < KILLS && (await isUnderWay())) {
    kills += await killConnections()
    await sleep(randomInt(200))
  }
  await assertAllArrived(t)
  t.diagnostic(`${kills} connections killed`)
  assert.ok(kills > KILLS / 4, `only ${kills} connections were killed`)
})

test('the network breaks all connections, again and again: everything arrives, once', async (t) => {
  await publishUntilMidway(300)
  for (let breaks = 0; breaks < 10; breaks++) {
    proxy.reset()
    await sleep(randomInt(60))
  }
  await assertAllArrived(t)
})

test('the network falls silent for longer than a statement may take: everything arrives, once', async (t) => {
  await publishUntilMidway(300)
  proxy.fallSilent()
  await sleep(1.5 * STATEMENT_TIMEOUT_MS)
  proxy.speak()
  await assertAllArrived(t)
})

test('connections stay silent for good while new ones work: everything arrives, once', async (t) => {
  await publishUntilMidway(300)
  proxy.fallSilent()
  proxy.speakOnNewConnections()
  await assertAllArrived(t)
})

test('a watch ended before the network lets the watch begin leaves no connection behind', async (t) => {
  const slow = await startProxy(database.url)
  t.after(() => slow.close())
  const store = createPostgresStore(slow.url)
  t.after(() => store.close())

  slow.fallSilent()
  const { end: unwatch } = store.deliveries.watch(() => {})
  await until('it is connecting', () => slow.size > 0, 30_000)
  unwatch()
  slow.speak()
  await until('its connection is closed', () => slow.size === 0, 30_000)
})

/** Publishes a burst and waits for the first deliveries. */
async function publishUntilMidway(events: number): Promise<void> {
  const before = await countDelivered()
  for (const organizationId of ORGANIZATIONS) {
    const ids = await publishBurst(scene.sql, organizationId, events / ORGANIZATIONS.length)
    for (const id of ids) published.committed.add(id)
  }
  await until('delivery has begun', async () => (await countDelivered()) > before + events / 20, 30_000)
  assert.ok(await isUnderWay(), 'all of it is delivered already')
}

async function countDelivered(): Promise<number> {
  const [row] = await scene.sql`
    select count(*)::int as count from business_api.finished_deliveries where state = 'delivered'`
  return row?.count
}

async function isUnderWay(): Promise<boolean> {
  return (await countDelivered()) < published.committed.size
}

/** Connections of the deliverer, including the listening connection. */
async function killConnections(): Promise<number> {
  const [killed] = await scene.sql`
    select count(*) filter (where pg_terminate_backend(pid))::int as count from (
      select pid from pg_stat_activity
      where datname = current_database() and application_name = 'business-api-kit'
      order by random() limit ${randomInt(1, 3)}
    ) as victim`
  return killed?.count
}

async function assertAllArrived(t: TestContext): Promise<void> {
  const drainedMs = await untilDelivered(scene, 60_000)
  assert.equal(deliverer.exit, null, 'the deliverer has ended')
  deliverer.assertUnharmed()
  const tally = await assertDelivered(scene, published)
  t.diagnostic(`all delivered after ${Math.round(drainedMs)} ms; so far ${describeTally(tally)}`)
  assert.deepEqual([tally.repeats, tally.interrupted], [0, 0])
}
