// The activity of some thousand deliveries with every outcome, through three loops that are killed at random: the counts are exactly
// those of the log.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ActivityCounts,
  addCounts,
  COUNTERS,
  classOfAttempt,
  countAttempt,
  countOf,
} from '../../lib/webhooks/activity.ts'
import { newEntry } from '../_audit.ts'
import { type Deliverer, type Scene, setScene } from './_deliveries.ts'
import { publishBurst } from './_publishers.ts'
import { untilDelivered } from './_tally.ts'

const ORGANIZATIONS = ['org_one', 'org_two']
const EVENTS = 250
const KILLS = 8
const LOOP = { leaseMs: 2000, retryDelaysMs: [50, 50] }

/** Every behaviour of a subscriber, and of addresses without one. */
const BEHAVIOURS = [
  'answering',
  'slow?ms=40',
  'failing?times=1',
  'status?of=302',
  'status?of=404',
  'status?of=500',
  'cut',
]

test('the activity of deliveries by three killed loops is the sum of their attempts, by hour and endpoint', async (t) => {
  const scene = await setScene(t)
  for (const organizationId of ORGANIZATIONS) {
    for (const behaviour of BEHAVIOURS) await scene.subscribe(organizationId, behaviour)
  }
  // A subscriber whose attempts take a second, and others that are never reached, of a few events only.
  await scene.subscribe('org_few', 'silent')
  await scene.subscribe('org_few', 'answering')
  await scene.subscribe('org_few', 'cut')
  await scene.sql`
    update business_api.webhook_endpoints
    set url = case when url like '%/cut' then 'http://127.0.0.1:1/' else replace(url, 'http:', 'https:') end
    where organization_id = 'org_few' and url not like '%/silent'`

  const deliverers = await Promise.all([1, 2, 3].map(() => start(scene)))
  let kills = 0
  async function killSome(): Promise<void> {
    while (kills < KILLS) {
      await sleep(randomInt(400))
      const place = randomInt(deliverers.length)
      const victim = deliverers[place]
      victim?.signal('SIGKILL')
      await victim?.ended
      deliverers[place] = await start(scene)
      kills++
    }
  }
  async function publishAll(): Promise<void> {
    await publishBurst(scene.sql, 'org_few', 5)
    for (let published = 0; published < EVENTS; published += 10) {
      for (const organizationId of ORGANIZATIONS) await publishBurst(scene.sql, organizationId, 10)
      await sleep(30)
    }
  }
  await Promise.all([publishAll(), killSome()])
  await untilDelivered(scene, 120_000)
  await assertActivityOfLog(scene)

  // Once more, for some deliveries that were delivered and some that failed.
  for (const organizationId of ORGANIZATIONS) {
    for (const state of ['delivered', 'failed'] as const) {
      const some = await scene.store.deliveries.list(organizationId, { states: [state] }, 100, null)
      const ids = some.map(({ id }) => id)
      await scene.store.deliveries.recover({ organizationId, ids, filter: {}, limit: 100, entry: newEntry() })
    }
  }
  await untilDelivered(scene, 60_000)
  t.diagnostic(`${kills} kills, ${await assertActivityOfLog(scene)}`)
})

function start(scene: Scene): Promise<Deliverer> {
  return scene.startDeliverer({ loop: LOOP, sender: { timeoutMs: 1000 } })
}

interface LoggedAttempt {
  readonly delivery: string
  readonly endpoint: string
  readonly hour: string
  readonly status: number | null
  readonly error: string | null
  readonly durationMs: number
}

/** Compares every row with the log. Returns a line of what was compared. */
async function assertActivityOfLog({ sql }: Scene): Promise<string> {
  const log = await sql<LoggedAttempt[]>`
    select a.organization_id || ' ' || a.delivery_id as delivery, a.organization_id || ' ' || d.endpoint_id as endpoint,
      date_trunc('hour', d.created_at, 'UTC')::text as hour, a.status, a.error, a.duration_ms as "durationMs"
    from business_api.delivery_attempts a
    join business_api.finished_deliveries d on d.organization_id = a.organization_id and d.id = a.delivery_id
    order by a.organization_id, a.delivery_id, a.number`
  const expected = new Map<string, ActivityCounts>()
  for (const [index, attempt] of log.entries()) {
    const ended = classOfAttempt(attempt) === '2xx' ? 'delivered' : 'failed'
    const isLast = log[index + 1]?.delivery !== attempt.delivery
    const key = `${attempt.endpoint} ${attempt.hour}`
    const counts = countAttempt(attempt, isLast ? ended : null)
    expected.set(key, addCounts([expected.get(key) ?? [], counts]))
  }
  const sums = COUNTERS.map((_, place) => `sum(counts[${place + 1}])::int`).join(', ')
  const counted = await sql<{ key: string; counts: number[]; slots: number }[]>`
    select organization_id || ' ' || endpoint_id || ' ' || hour as key, array[${sql.unsafe(sums)}] as counts, count(*)::int as slots
    from business_api.endpoint_activity group by organization_id, endpoint_id, hour`
  assert.deepEqual(
    Object.fromEntries(counted.map(({ key, counts }) => [key, counts])),
    Object.fromEntries(expected),
  )

  const totals = addCounts(counted.map(({ counts }) => counts))
  const named = COUNTERS.filter((counter) => typeof counter === 'string')
  const missing = named.filter((counter) => countOf(totals, counter) === 0)
  assert.deepEqual(missing, ['other'], 'every other outcome occurred')
  const slots = Math.max(...counted.map((row) => row.slots))
  const lines = named.map((counter) => `${countOf(totals, counter)} ${counter}`)
  return `${log.length} attempts: ${lines.join(', ')}; ${slots} slots at most`
}
