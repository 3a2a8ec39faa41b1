import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { everyDelivery } from '../_deliveries.ts'
import { type Deliverer, type Scene, setScene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { createPublished, type Published, publishBurst } from './_publishers.ts'
import { assertDelivered, untilDelivered } from './_tally.ts'

const ORGANIZATION = 'org_stopped'
/** The default: far longer than any of these tests may take. */
const LEASE_MS = 30_000
/** Below the 10 seconds of an attempt at a silent subscriber. */
const STOPPED_WITHIN_MS = 8000

/** The attempts to an endpoint that loop and sender allow in flight at once. */
const IN_FLIGHT_MAX = 32

test('a deliverer stopped in a burst ends the attempts in flight and gives back all other deliveries, for another deliverer to send at once', async (t) => {
  const scene = await setScene(t)
  const published = createPublished()
  const stopped = await scene.startDeliverer()
  await publishAhead(scene, published)

  const stopping = stop(stopped)
  const givenBackMs = await until(
    'what was not begun is given back',
    async () => (await countClaimed(scene)) === IN_FLIGHT_MAX,
    5000,
  )
  await scene.receiver.release()
  const stopMs = await stopping
  // Waiting deliveries count no attempt.
  const left = BURST - IN_FLIGHT_MAX
  const sent = published.committed.size - left
  assert.deepEqual(await countByState(scene), { 'delivered 1': sent, 'pending 0': left })

  await scene.startDeliverer()
  const sentMs = await untilDelivered(scene, LEASE_MS / 3)
  const tally = await assertDelivered(scene, published)
  assert.deepEqual([tally.repeats, tally.interrupted], [0, 0])
  t.diagnostic(
    `given back ${Math.round(givenBackMs)} ms after the signal, stopped ${Math.round(stopMs)} ms after it; ` +
      `another one sent what was left in ${Math.round(sentMs)} ms`,
  )
})

test('a deliverer stopped while a subscriber is silent ends in time; the attempts it ends are due again at once', async (t) => {
  const scene = await setScene(t)
  await scene.subscribe(ORGANIZATION, 'silent')
  const stopped = await scene.startDeliverer({ stopTimeoutMs: 200 })
  await publishMany(scene, 4, createPublished())
  await until('attempts are in flight', async () => (await scene.receiver.counts()).open === 4, 30_000)

  const stopMs = await stop(stopped)
  t.diagnostic(`stopped in ${Math.round(stopMs)} ms`)
  assert.ok(stopMs < STOPPED_WITHIN_MS, `the stop took ${stopMs} ms`)
  const deliveries = await readDeliveries(scene)
  const now = new Date()
  for (const { state, due_at, log } of deliveries) {
    assert.deepEqual([state, log], ['pending', ['interrupted']])
    assert.ok(due_at < now, `due only at ${due_at.toISOString()}`)
  }
})

test('a deliverer frozen until its leases have ended changes nothing and sends nothing after going on', async (t) => {
  const scene = await setScene(t)
  const published = createPublished()
  const loop = { leaseMs: 2000, pollIntervalMs: 20 }
  const frozen = await scene.startDeliverer({ loop })
  await publishAhead(scene, published)

  frozen.signal('SIGSTOP')
  const claimed = await countClaimedForGood(scene)
  // The answers wait in the sockets of the frozen deliverer.
  await scene.receiver.release()
  await scene.startDeliverer({ loop })
  await untilDelivered(scene, 60_000)
  const settled = await readDeliveries(scene)
  frozen.signal('SIGCONT')
  // After the end the deliverer writes nothing more.
  await stop(frozen)

  assert.deepEqual(await readDeliveries(scene), settled)
  const interrupted = settled.filter(({ log }) => log.length > 1)
  for (const { log } of interrupted) assert.deepEqual(log, ['interrupted', '200'])
  const tally = await assertDelivered(scene, published)
  assert.deepEqual([interrupted.length, tally.repeats], [claimed, IN_FLIGHT_MAX])
})

/** First a burst, which raises the endpoint's concurrency limit to the maximum, then a quick delivery. */
const WARM_UPS = [60, 1]
const BURST = 100

/** Makes a deliverer claim more than the loop can send: attempts in flight have no answer until `release`. */
async function publishAhead(scene: Scene, published: Published): Promise<void> {
  await scene.subscribe(ORGANIZATION, 'gated')
  for (const events of WARM_UPS) {
    await publishMany(scene, events, published)
    await untilDelivered(scene, 60_000)
  }
  await scene.receiver.hold()
  await publishMany(scene, BURST, published)
  const isAhead = async (): Promise<boolean> =>
    (await scene.receiver.counts()).open === IN_FLIGHT_MAX && (await countClaimed(scene)) > IN_FLIGHT_MAX + 8
  await until('a deliverer has claimed ahead', isAhead, 30_000)
}

async function publishMany({ sql }: Scene, events: number, published: Published): Promise<void> {
  for (const id of await publishBurst(sql, ORGANIZATION, events)) published.committed.add(id)
}

async function countClaimed({ sql }: Scene): Promise<number> {
  const [row] =
    await sql`select count(*)::int as count from business_api.open_deliveries where claim_token is not null`
  return row?.count
}

/** A claim that was under way when its deliverer was frozen may still commit. */
async function countClaimedForGood(scene: Scene): Promise<number> {
  let claimed = await countClaimed(scene)
  for (let before = Number.NaN; claimed !== before; ) {
    before = claimed
    await sleep(300)
    claimed = await countClaimed(scene)
  }
  return claimed
}

/** With the number of attempts. */
async function countByState({ sql }: Scene): Promise<Record<string, number>> {
  const rows = await sql<{ kind: string; count: number }[]>`
    select state || ' ' || attempts as kind, count(*)::int as count from ${everyDelivery(sql)} as delivery group by 1`
  return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]))
}

/** Stops a deliverer as a host would; gives how many milliseconds that took. */
async function stop(deliverer: Deliverer): Promise<number> {
  const startedAt = performance.now()
  deliverer.signal('SIGTERM')
  await deliverer.ended
  assert.equal(deliverer.exit, 0)
  deliverer.assertUnharmed()
  return performance.now() - startedAt
}

interface DeliveryRow {
  readonly state: string
  readonly due_at: Date
  /** The status or the error of each attempt. */
  readonly log: readonly string[]
}

/** Everything that a late write could change. */
async function readDeliveries({ sql }: Scene): Promise<DeliveryRow[]> {
  const rows = await sql<DeliveryRow[]>`
    select d.*, w.failures, w.failing_since, attempt.*
    from ${everyDelivery(sql)} d
    join business_api.webhook_endpoints w on w.organization_id = d.organization_id and w.id = d.endpoint_id
    cross join lateral (
      select
        array_agg(coalesce(a.error, a.status::text) order by a.number) as log,
        array_agg(a::text order by a.number) as rows
      from business_api.delivery_attempts a
      where a.organization_id = d.organization_id and a.delivery_id = d.id
    ) as attempt
    order by d.id`
  return [...rows]
}
