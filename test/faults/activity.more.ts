// The activity of some thousand deliveries with every outcome, through three loops that are killed at random: the counts are exactly
// those of the log.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ATTEMPT_CLASSES, bucketOf, classOfAttempt } from '../../lib/webhooks/activity.ts'
import { newEntry } from '../_audit.ts'
import { type Deliverer, type Scene, setScene } from './_deliveries.ts'
import { publishBurst } from './_publishers.ts'
import { untilDelivered } from './_tally.ts'

const ORGANIZATIONS = ['org_one', 'org_two']
const EVENTS = 250
const KILLS = 8
const LOOP = { leaseMs: 2000, retryDelaysMs: [50, 50] }
const ATTEMPTS_OF_A_ROUND = 3

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

/** The columns of the table, in the order in which the expectation counts. */
const COLUMNS = [
  ...[
    'delivered',
    'failed',
    'status_2xx',
    'status_3xx',
    'status_4xx',
    'status_5xx',
    'timeout',
    'connection',
    'tls',
  ],
  ...['not_allowed', 'interrupted', 'other'],
  ...[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192].map((ms) => `below_${ms}ms`),
  'from_8192ms',
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
      date_trunc('hour', a.started_at, 'UTC')::text as hour, a.status, a.error, a.duration_ms as "durationMs"
    from business_api.delivery_attempts a
    join business_api.finished_deliveries d on d.organization_id = a.organization_id and d.id = a.delivery_id
    order by a.organization_id, a.delivery_id, a.number`
  const expected = new Map<string, number[]>()
  const add = ({ endpoint, hour }: LoggedAttempt, column: string): void => {
    const counts = expected.get(`${endpoint} ${hour}`) ?? COLUMNS.map(() => 0)
    const place = COLUMNS.indexOf(column)
    counts[place] = (counts[place] ?? 0) + 1
    expected.set(`${endpoint} ${hour}`, counts)
  }
  let [delivery, round, isDelivered] = ['', 0, false]
  for (const attempt of log) {
    if (attempt.delivery !== delivery) [delivery, round, isDelivered] = [attempt.delivery, 0, false]
    const name = classOfAttempt(attempt)
    add(attempt, COLUMNS[2 + ATTEMPT_CLASSES.indexOf(name)] ?? '')
    if (attempt.status !== null) add(attempt, COLUMNS[12 + bucketOf(attempt.durationMs)] ?? '')
    round++
    if (name !== '2xx' && round < ATTEMPTS_OF_A_ROUND) continue
    if (!isDelivered) add(attempt, name === '2xx' ? 'delivered' : 'failed')
    isDelivered ||= name === '2xx'
    round = 0
  }
  const sums = COLUMNS.map((column) => `sum(${column})::int`).join(', ')
  const counted = await sql<{ key: string; counts: number[]; slots: number }[]>`
    select organization_id || ' ' || endpoint_id || ' ' || hour as key, array[${sql.unsafe(sums)}] as counts, count(*)::int as slots
    from business_api.endpoint_activity group by organization_id, endpoint_id, hour`
  assert.deepEqual(
    Object.fromEntries(counted.map(({ key, counts }) => [key, counts])),
    Object.fromEntries(expected),
  )

  const totals = COLUMNS.map((_, place) => counted.reduce((sum, { counts }) => sum + (counts[place] ?? 0), 0))
  const missing = COLUMNS.slice(0, 12).filter((_, place) => totals[place] === 0)
  assert.deepEqual(missing, ['other'], 'every other outcome occurred')
  const slots = Math.max(...counted.map((row) => row.slots))
  return `${log.length} attempts: ${COLUMNS.slice(0, 12)
    .map((name, place) => `${totals[place]} ${name}`)
    .join(', ')}; ${slots} slots at most`
}
