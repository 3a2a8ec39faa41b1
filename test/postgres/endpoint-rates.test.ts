import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { AttemptResult } from '../../lib/webhooks/claims.ts'
import {
  allowanceOf,
  createEndpointRate,
  type EndpointRate,
  judgeRate,
  spend,
} from '../../lib/webhooks/endpoint-rate.ts'
import type { TestDatabase } from '../_database.ts'
import { useDatabase } from '../_use-database.ts'
import { addEndpoint, publish } from '../bench/deliveries/parts.ts'
import { success as delivered, failure as failed } from '../contract/delivering.ts'
import { randomOf } from './_sync.ts'

// The rules for endpoint rates exist twice: in lib/webhooks/endpoint-rate.ts for the memory store, and in
// sql/44-endpoint-rates.sql. We run the same steps with both, using a clock driven by the tests, and compare all fields
// after each step.

let database: TestDatabase
let sql: Sql
let store: PostgresStore
useDatabase((used) => {
  ;({ database, sql, store } = used)
}, 1)

/** A claim that takes as many as it may, up to a limit. */
interface ClaimStep {
  readonly afterMs: number
  readonly claim: number
}

/**
 * The results of attempts that started some milliseconds ago. `of` is the number of the claim and defaults to
 * the last one.
 */
interface ResultStep {
  readonly afterMs: number
  readonly of?: number
  readonly successes?: number
  readonly successAgoMs?: number
  readonly rejectedAgoMs?: number
  readonly failedAgoMs?: number
  readonly askedMs?: number
  readonly failures?: number
  readonly hasDue?: boolean
}

type Step = ClaimStep | ResultStep

const claimOf = (afterMs = 0, claim = 4): ClaimStep => ({ afterMs, claim })
const success = (afterMs = 0, more: Partial<ResultStep> = {}): ResultStep => ({
  afterMs,
  successes: 1,
  successAgoMs: 0,
  hasDue: true,
  ...more,
})
const rejection = (afterMs = 0, askedMs = 0, more: Partial<ResultStep> = {}): ResultStep => ({
  afterMs,
  rejectedAgoMs: 0,
  failedAgoMs: 0,
  askedMs,
  ...more,
})
const failure = (failures: number): ResultStep => ({ afterMs: 0, failedAgoMs: 0, failures })
const times = (count: number, steps: readonly Step[]): Step[] =>
  Array.from({ length: count }, () => steps).flat()
/** A backoff of one second whose probe succeeds. */
const LEARNED: readonly Step[] = [claimOf(), rejection(), claimOf(1000), success()]

const SEQUENCES: Readonly<Record<string, readonly Step[]>> = {
  'no rejection': [claimOf(), success(), claimOf(10), failure(3)],
  'a burst of rejections, and a success of the burst': [
    claimOf(),
    rejection(5),
    rejection(5, 3000, { rejectedAgoMs: 500, failedAgoMs: 500 }),
    success(5, { successAgoMs: 500 }),
    claimOf(2000),
    claimOf(1001),
    claimOf(5),
  ],
  'probes that fail until the endpoint is down, and a success': [
    claimOf(),
    ...times(12, [rejection(), claimOf(65_000)]),
    claimOf(10, 50),
    rejection(10),
    success(100),
    claimOf(1250),
  ],
  'probes that ask for a day': [
    claimOf(),
    rejection(0, 86_400_000),
    claimOf(3_600_000),
    rejection(0, 86_400_000),
  ],
  'a probe that fails by a timeout, and one that its process interrupts': [
    claimOf(),
    rejection(),
    claimOf(1000),
    { afterMs: 0, failedAgoMs: 0 },
    claimOf(2000),
    { afterMs: 0 },
    claimOf(),
    success(),
  ],
  'a rejection that is no probe': [
    claimOf(),
    claimOf(),
    rejection(0, 0, { of: 0 }),
    rejection(1, 0, { of: 1 }),
    claimOf(999),
  ],
  'a rate that rises, is cut, and rises slowly': [
    ...LEARNED,
    ...times(30, [claimOf(1250), success(10)]),
    rejection(),
    claimOf(1000),
    success(),
    ...times(30, [claimOf(1250), success(10)]),
  ],
  'a rate that rises until the endpoint is unlimited': [
    ...LEARNED,
    ...times(60, [claimOf(1250, 40), success(0, { successes: 40 })]),
    claimOf(),
  ],
  'a rate that is not used': [...LEARNED, ...times(5, [claimOf(60_000), success(10, { hasDue: false })])],
  'a rate whose turn has passed': [...LEARNED, ...times(5, [claimOf(1250), success(1300)])],
  'a second rejection soon, and one later': [
    ...LEARNED,
    claimOf(1250),
    rejection(10),
    claimOf(2000),
    success(),
    claimOf(2000),
    success(10),
    claimOf(2000),
    rejection(10),
    claimOf(60_000),
    success(),
    rejection(600_000),
  ],
  'failures without a response': [
    ...LEARNED,
    claimOf(1250),
    failure(3),
    claimOf(2000),
    failure(12),
    claimOf(10),
    success(10),
  ],
}

interface Row {
  readonly maxPerSecond: number | null
  readonly rate: number | null
  readonly ceiling: number | null
  readonly rejectedAt: number
  readonly accepted: number
  readonly waitMs: number
  readonly waitedMs: number
  readonly nextAt: number
  readonly probe: string | null
}

/** Runs steps with both and compares them. The test's claims are rows of open_deliveries, like those of a loop. */
async function compare(steps: readonly Step[], maxPerSecond: number | null): Promise<void> {
  const [endpoint] = await sql`
    update business_api.webhook_endpoints set max_per_second = ${maxPerSecond} returning organization_id, id`
  const ids = await sql`select id from business_api.open_deliveries order by id`
  const key = { organization_id: String(endpoint?.organization_id), endpoint_id: String(endpoint?.id) }
  let known: EndpointRate | null = null
  let now = Date.parse('2026-01-01T00:00:00Z')
  let claims = 0
  for (const [place, step] of steps.entries()) {
    now += step.afterMs
    const at = new Date(now).toISOString()
    const name = `step ${place}, ${JSON.stringify(step)}`
    if ('claim' in step) {
      const token = `token-${claims++}`
      if (maxPerSecond !== null) known ??= createEndpointRate(maxPerSecond)
      const [probing] = await sql`
        select 1 from business_api.endpoint_rates r
        join business_api.open_deliveries d on d.id = r.probe_id and d.claim_token = r.probe_token`
      const most: number = known === null ? step.claim : allowanceOf(known, !!probing, now)
      const wanted = Math.min(step.claim, most)
      if (known !== null) {
        const [allowed] = await sql<{ allowance: number }[]>`
          select * from business_api.rate_allowance(
            ${key.organization_id}, ${key.endpoint_id}, ${maxPerSecond}::float8, ${step.claim}::int, ${at}::timestamptz
          )`
        assert.equal(allowed?.allowance, wanted, name)
      }
      const taken = ids.slice(0, wanted).map(({ id }) => String(id))
      await sql`update business_api.open_deliveries set claim_token = ${token}, lease_until = 'infinity' where id in ${sql(['', ...taken])}`
      if (known !== null) {
        spend(known, wanted, token, now)
        await sql`
          select business_api.spend_rate(
            ${key.organization_id}, ${key.endpoint_id}, ${maxPerSecond}::float8,
            array(select jsonb_array_elements_text(${JSON.stringify(taken)}::text::jsonb)), ${token}, ${at}::timestamptz
          ) where ${wanted}::int > 0`
      }
    } else {
      const { of = claims - 1, successes = 0, failures = 0, hasDue = false, askedMs = 0 } = step
      const { successAgoMs, rejectedAgoMs, failedAgoMs } = step
      const token = `token-${of}`
      const ago = (ms: number | undefined) => (ms === undefined ? null : now - ms)
      if (rejectedAgoMs !== undefined) known ??= createEndpointRate(maxPerSecond)
      if (known !== null) {
        const results = {
          successes,
          tokens: [token],
          successAt: ago(successAgoMs),
          rejectionAt: ago(rejectedAgoMs),
          hasFailure: failedAgoMs !== undefined,
          askedMs,
          failures,
          hasDue,
        }
        if (!judgeRate(known, results, now)) known = null
      }
      // The last delivery is due or claimed by another process.
      await sql`update business_api.open_deliveries set claim_token = null, lease_until = null where claim_token = ${token}`
      await sql`update business_api.open_deliveries set claim_token = ${hasDue ? null : 'other'} where claim_token is null or claim_token = 'other'`
      await sql`update business_api.webhook_endpoints set failures = ${failures}`
      const outcome = {
        ...key,
        successes,
        succeeded_ago_ms: successAgoMs,
        rejected_ago_ms: rejectedAgoMs,
        has_failure: failedAgoMs !== undefined,
        back_off_ms: rejectedAgoMs === undefined ? undefined : askedMs,
        tokens: [token],
      }
      await sql`select business_api.judge_rate(${JSON.stringify(outcome)}::text::jsonb, ${at}::timestamptz)`
    }
    const [row] = await sql<Row[]>`
      select (select max_per_second from business_api.webhook_endpoints) as "maxPerSecond", rate, ceiling, extract(epoch from rejected_at)::float8 * 1000 as "rejectedAt", accepted, wait_ms as "waitMs",
        waited_ms as "waitedMs", extract(epoch from next_at)::float8 * 1000 as "nextAt", probe_token as probe
      from business_api.endpoint_rates`
    assertEqual(row ?? null, known, name)
  }
}

/**
 * Times are equal to a hundredth of a millisecond, because PostgreSQL rounds to microseconds. Other numbers are equal
 * to eight digits.
 */
function assertEqual(row: Row | null, known: EndpointRate | null, name: string): void {
  const digits = (value: number | null) => value && Number(value.toPrecision(8))
  const rounded = (each: Row | null) =>
    each && {
      ...each,
      rate: digits(each.rate),
      ceiling: digits(each.ceiling),
      waitMs: digits(each.waitMs),
      waitedMs: digits(each.waitedMs),
    }
  const closeTo = (one: number, other: number) => (Math.abs(one - other) < 0.01 ? other : one)
  const moments = row &&
    known && {
      nextAt: closeTo(row.nextAt, known.nextAt),
      rejectedAt: closeTo(row.rejectedAt, known.rejectedAt),
    }
  assert.deepEqual(rounded(row && { ...row, ...moments }), rounded(known), name)
}

describe('Endpoint rates in memory and in SQL', () => {
  beforeEach(async () => {
    await sql`truncate business_api.webhook_endpoints, business_api.endpoint_rates, business_api.open_deliveries, business_api.events`
    await addEndpoint(store, 'org_1', 'https://receiver.test/')
    for (let event = 0; event < 50; event++) await publish(store, 'org_1')
  })

  for (const [name, steps] of Object.entries(SEQUENCES)) {
    for (const maxPerSecond of [null, 0.5, 40]) {
      test(`are equal after each step: ${name}, maxPerSecond ${maxPerSecond}`, () =>
        compare(steps, maxPerSecond))
    }
  }

  for (let seed = 1; seed <= 8; seed++) {
    test(`are equal after each of 150 random steps, seed ${seed}`, () => {
      const random = randomOf(seed)
      const pick = <T>(values: readonly [T, ...T[]]): T => values[random(values.length)] ?? values[0]
      const steps = Array.from({ length: 150 }, (): Step => {
        const afterMs = pick([0, 7, 120, 1000, 1300, 5000, 70_000])
        const agoMs = pick([0, 0, 3, 900, 4000])
        return pick<() => Step>([
          () => claimOf(afterMs, pick([1, 4, 30])),
          () => claimOf(afterMs),
          () =>
            success(afterMs, {
              successes: pick([1, 3, 20]),
              successAgoMs: agoMs,
              hasDue: pick([true, true, false]),
            }),
          () => success(afterMs),
          () => rejection(afterMs, pick([0, 0, 1500, 90_000]), { rejectedAgoMs: agoMs, failedAgoMs: agoMs }),
          () => ({
            ...success(afterMs),
            ...rejection(afterMs, 0, { failedAgoMs: agoMs, rejectedAgoMs: agoMs }),
          }),
          () => ({ ...failure(pick([1, 10])), afterMs }),
        ])()
      })
      return compare(steps, pick([null, null, 2, 300]))
    })
  }
})

test('A receiver that rejects one in twenty requests, whatever the rate, gets as many in the tenth hour as in the first', () => {
  const known = createEndpointRate(null)
  const random = randomOf(1)
  const taken = Array.from({ length: 10 }, () => 0)
  let now = 0
  for (let claims = 0; now < 36_000_000; claims++) {
    const token = `token-${claims}`
    now = Math.max(now, known.nextAt) + 5
    const count = Math.min(4, allowanceOf(known, false, now))
    spend(known, count, token, now)
    for (let one = 0; one < count; one++) {
      const isRejected = claims === 0 || random(20) === 0
      const [successAt, rejectionAt] = isRejected ? [null, now] : [now, null]
      const successes = isRejected ? 0 : 1
      const attempt = { successes, tokens: [token], successAt, rejectionAt, hasFailure: isRejected }
      judgeRate(known, { ...attempt, askedMs: 0, failures: 0, hasDue: true }, now + 5)
      taken[Math.floor(now / 3_600_000)] = (taken[Math.floor(now / 3_600_000)] ?? 0) + successes
    }
  }
  const [first = 0, last = 0] = [taken[0], taken[9]]
  assert.ok(last > 1000 && last > first / 2, taken.join())
})

describe('The locks of rates', () => {
  const request = {
    isRepeat: false,
    limit: 12,
    maxBytes: 4 * 1024 * 1024,
    capacity: { endpoint: 2, organization: 64, endpoints: {}, organizations: {} },
    scanLimit: 200,
    cursor: null,
    leaseMs: 30_000,
    maxAttempts: 5,
  } as const
  const NEVER = { failures: 1_000_000, failingMs: 1_000_000_000_000 }

  beforeEach(async () => {
    await sql`truncate business_api.webhook_endpoints, business_api.endpoint_rates, business_api.open_deliveries, business_api.events`
    for (let endpoint = 0; endpoint < 6; endpoint++) {
      await addEndpoint(store, 'org_1', `https://${endpoint}.test/`, {
        maxPerSecond: endpoint % 2 ? 1000 : null,
      })
    }
    for (let event = 0; event < 300; event++) await publish(store, 'org_1')
  })

  test("don't block releases, so two calls can't wait for each other", async () => {
    const { deliveries } = await store.deliveries.claim({ ...request, token: 'held' })
    const claims = deliveries.map(({ organizationId, id }) => ({
      organizationId,
      deliveryId: id,
      token: 'held',
    }))
    const released = await sql.begin(async (tx) => {
      await tx`select from business_api.endpoint_rates for update`
      return Promise.race([store.deliveries.release(claims).then(() => 'released'), sleep(3000)])
    })
    assert.equal(released, 'released')
  })

  test('are taken in the same order by claims, results and releases of four processes', async () => {
    const stores = Array.from({ length: 4 }, () => createPostgresStore(database.url))
    const endsAt = performance.now() + 4000
    const work = async ({ deliveries: verbs }: PostgresStore, worker: number) => {
      const random = randomOf(worker)
      let late: AttemptResult[] = []
      for (let round = 0; performance.now() < endsAt; round++) {
        const token = `storm-${worker}-${round}`
        const { deliveries } = await verbs.claim({ ...request, token })
        const shuffled = deliveries.toSorted(() => random(3) - 1)
        const results = shuffled.map(({ organizationId, id }) =>
          random(3) === 0
            ? delivered({ organizationId, id, token })
            : failed(
                { organizationId, id, token },
                { status: 429, backOffMs: 0, startedAgoMs: random(5), endedAgoMs: 0 },
              ),
        )
        const [now, later] = [
          results.filter((_, place) => place % 3 === 0),
          results.filter((_, place) => place % 3 === 1),
        ]
        await verbs.writeResults([...late, ...now], NEVER)
        late = later
        await verbs.release(results.filter((_, place) => place % 3 === 2))
        // The endpoints are probed again immediately.
        if (random(4) === 0) await verbs.writeResults(late.splice(0), NEVER)
      }
    }
    const probing = (async () => {
      while (performance.now() < endsAt) {
        await sql`
          update business_api.endpoint_rates set next_at = '-infinity' where endpoint_id in (
            select r.endpoint_id from business_api.endpoint_rates r for update skip locked
          )`
        await sleep(20)
      }
    })()
    await Promise.all([...stores.map(work), probing])
    await Promise.all(stores.map((each) => each.close()))
    // Sessions report their counters within a second.
    await sleep(1500)
    const [counts] = await sql`select deadlocks::int from pg_stat_database where datname = current_database()`
    assert.equal(counts?.deadlocks, 0)
    const [rates] = await sql`select count(*)::int as known from business_api.endpoint_rates`
    assert.ok(rates?.known > 3, `${rates?.known} rates`)
  })
})
