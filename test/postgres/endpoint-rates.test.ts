import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import type { PostgresStore } from '../../lib/postgres.ts'
import {
  allowanceOf,
  createEndpointRate,
  type EndpointRate,
  judgeRate,
  spend,
} from '../../lib/webhooks/endpoint-rate.ts'
import { useDatabase } from '../_use-database.ts'
import { addEndpoint, publish } from '../bench/deliveries/parts.ts'
import { randomOf } from './_sync.ts'

// The rules of an endpoint's rate exist twice: lib/webhooks/endpoint-rate.ts for the store in memory, and sql/44-endpoint-rates.sql.
// The same steps are taken with both, by a clock that the tests drive, and every field is compared after each.

let sql: Sql
let store: PostgresStore
useDatabase((used) => {
  ;({ sql, store } = used)
}, 1)

/** A claim takes as many as it may, up to a number. */
interface ClaimStep {
  readonly afterMs: number
  readonly claim: number
}

/** The results of attempts that began some milliseconds ago; `of`: the number of the claim, default the last. */
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
/** A back-off of a second whose probe succeeds. */
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
    ...times(60, [claimOf(1250, 500), success(0, { successes: 40 })]),
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
  readonly rate: number | null
  readonly ceiling: number | null
  readonly rejectedAt: number
  readonly accepted: number
  readonly waitMs: number
  readonly waitedMs: number
  readonly isDown: boolean
  readonly nextAt: number
  readonly probe: string | null
}

/** Takes steps with both, and compares. The claims of the test are rows of open_deliveries, as those of a loop. */
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
      if (maxPerSecond !== null) known ??= createEndpointRate()
      const [probing] = await sql`
        select 1 from business_api.endpoint_rates r
        join business_api.open_deliveries d on d.id = r.probe_id and d.claim_token = r.probe_token`
      const most: number = known === null ? step.claim : allowanceOf(known, maxPerSecond, !!probing, now)
      const wanted = Math.min(step.claim, most)
      if (known !== null) {
        const [allowed] = await sql<{ deliveries: number }[]>`
          select business_api.rate_allowance(
            ${key.organization_id}, ${key.endpoint_id}, ${maxPerSecond}::float8, ${step.claim}::int, ${at}::timestamptz
          ) as deliveries`
        assert.equal(allowed?.deliveries, wanted, name)
      }
      const taken = ids.slice(0, wanted).map(({ id }) => String(id))
      await sql`update business_api.open_deliveries set claim_token = ${token}, lease_until = 'infinity' where id in ${sql(['', ...taken])}`
      if (known !== null) {
        spend(known, maxPerSecond, wanted, token, now)
        await sql`
          select business_api.spend_rates(
            array[${key.organization_id}], array[${key.endpoint_id}], array_fill(${key.organization_id}::text, array[${wanted}::int]),
            array_fill(${key.endpoint_id}::text, array[${wanted}::int]), array(select jsonb_array_elements_text(${JSON.stringify(taken)}::text::jsonb)),
            ${token}, ${at}::timestamptz
          )`
      }
    } else {
      const { of = claims - 1, successes = 0, failures = 0, hasDue = false, askedMs = 0 } = step
      const { successAgoMs, rejectedAgoMs, failedAgoMs } = step
      const token = `token-${of}`
      const ago = (ms: number | undefined) => (ms === undefined ? null : now - ms)
      if (rejectedAgoMs !== undefined) known ??= createEndpointRate()
      if (known !== null) {
        const results = {
          successes,
          tokens: [token],
          successAt: ago(successAgoMs),
          rejectionAt: ago(rejectedAgoMs),
          failureAt: ago(failedAgoMs),
          askedMs,
          failures,
          hasDue,
        }
        if (!judgeRate(known, maxPerSecond, results, now)) known = null
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
        failed_ago_ms: failedAgoMs,
        back_off_ms: rejectedAgoMs === undefined ? undefined : askedMs,
        tokens: [token],
      }
      await sql`select business_api.judge_rate(${JSON.stringify(outcome)}::text::jsonb, ${at}::timestamptz)`
    }
    const [row] = await sql<Row[]>`
      select rate, ceiling, extract(epoch from rejected_at)::float8 * 1000 as "rejectedAt", accepted, wait_ms as "waitMs",
        waited_ms as "waitedMs", is_down as "isDown", extract(epoch from next_at)::float8 * 1000 as "nextAt", probe_token as probe
      from business_api.endpoint_rates`
    assertEqual(row ?? null, known, name)
  }
}

/** Moments are equal to a hundredth of a millisecond, because PostgreSQL rounds to microseconds; other figures to eight digits. */
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

describe('The rates of endpoints in memory and in SQL', () => {
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
    test(`are equal after each of 150 steps at random, seed ${seed}`, () => {
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
