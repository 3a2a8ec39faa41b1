import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type BucketState,
  type BucketTimes,
  type RateLimits,
  takeToken,
} from '../../lib/access/rate-limit.ts'

/** A time in this decade, because the floating-point error depends on it. */
const NOW = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
const UNUSED: BucketTimes = { key: 0, organization: 0 }

/** The floating-point error that is tolerated for each token. */
const FORGIVEN_MS = 0.01

function limits(key: [perSecond: number, burst: number], organization: [number, number]): RateLimits {
  return {
    key: { perSecond: key[0], burst: key[1] },
    organization: { perSecond: organization[0], burst: organization[1] },
  }
}

const ROOMY: [number, number] = [1000, 1000]

/** Buckets that keep their state, so that a test is simply a list of times. */
function createBuckets(initial: RateLimits) {
  let times = UNUSED
  return {
    limits: initial,
    take(now: number) {
      const taken = takeToken(times, this.limits, now)
      times = taken.times
      return taken.state
    },
    times: () => times,
  }
}

// --- Table-driven ---

/** Times in ms from the start, with the state of a key's bucket (10 per second, burst 3). */
const TABLE: readonly [at: number, remaining: number, retryAfterMs: number, resetMs: number][] = [
  [0, 2, 0, 100],
  [0, 1, 0, 200],
  [0, 0, 0, 300],
  [0, 0, 100, 300],
  [40, 0, 60, 260],
  [100, 0, 0, 300],
  [100, 0, 100, 300],
  [350, 1, 0, 150],
  [350, 0, 0, 250],
  [350, 0, 50, 250],
  [10_000, 2, 0, 100],
]

for (const scope of ['key', 'organization'] as const) {
  test(`takeToken() empties and refills the bucket of the ${scope} as reported by the state`, () => {
    const tight: [number, number] = [10, 3]
    const buckets = createBuckets(scope === 'key' ? limits(tight, ROOMY) : limits(ROOMY, tight))
    for (const [at, remaining, retryAfterMs, resetMs] of TABLE) {
      const state = buckets.take(NOW + at)
      assert.deepEqual(
        {
          ...state[scope],
          resetMs: Math.round(state[scope].resetMs),
          retryAfterMs: Math.round(state.retryAfterMs),
        },
        { perSecond: 10, burst: 3, remaining, resetMs, retryAfterMs },
        `at ${at}`,
      )
    }
  })
}

test('takeToken() changes neither bucket if one is empty', () => {
  const buckets = createBuckets(limits([1, 1], [1, 5]))
  buckets.take(NOW)
  const before = buckets.times()
  const { key, organization, retryAfterMs } = buckets.take(NOW)
  assert.ok(retryAfterMs > 0)
  assert.deepEqual([key.remaining, organization.remaining], [0, 4])
  assert.deepEqual(buckets.times(), before)
})

test('takeToken() returns the longer of two waits', () => {
  const buckets = createBuckets(limits([10, 1], [1, 1]))
  buckets.take(NOW)
  assert.equal(Math.round(buckets.take(NOW).retryAfterMs), 1000)
})

test('takeToken() applies a raised limit immediately', () => {
  const buckets = createBuckets(limits([0.01, 100], ROOMY))
  for (let request = 0; request < 100; request++) buckets.take(NOW)
  assert.equal(Math.round(buckets.take(NOW).retryAfterMs), 100_000)
  buckets.limits = limits([10, 100], ROOMY)
  assert.equal(Math.round(buckets.take(NOW).retryAfterMs), 100)
  assert.equal(buckets.take(NOW + 101).retryAfterMs, 0)
})

test("takeToken() doesn't lock out a caller for long if the clock goes back", () => {
  const buckets = createBuckets(limits([10, 3], ROOMY))
  buckets.take(NOW)
  assert.equal(Math.round(buckets.take(NOW - 3_600_000).retryAfterMs), 100)
})

// --- Randomized ---

/** Uses mulberry32, which returns the same numbers on every run. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Returns 0.01 to 1000 per second, evenly distributed over orders of magnitude, with bursts of 1 to 40. */
function randomLimits(random: () => number): RateLimits {
  const one = (): [number, number] => [10 ** (random() * 5 - 2), 1 + Math.floor(random() * 40)]
  return limits(one(), one())
}

/** Returns 0, part of an interval, or many intervals. */
function randomStep(random: () => number, { key, organization }: RateLimits): number {
  const intervalMs = 1000 / Math.min(key.perSecond, organization.perSecond)
  const kind = random()
  if (kind < 0.5) return 0
  return kind < 0.95 ? random() * intervalMs : random() * intervalMs * 60
}

const RUNS = 150
const REQUESTS = 200

/** Sends requests at random times to buckets with random limits. */
function forRandomRequests(
  check: (buckets: ReturnType<typeof createBuckets>, now: number, random: () => number) => void,
  afterRun: (limits: RateLimits) => void = () => {},
): void {
  for (let run = 0; run < RUNS; run++) {
    const random = createRandom(run)
    const buckets = createBuckets(randomLimits(random))
    let now = NOW + random() * 1000
    for (let request = 0; request < REQUESTS; request++) {
      now += randomStep(random, buckets.limits)
      check(buckets, now, random)
    }
    afterRun(buckets.limits)
  }
}

test("takeToken() returns an exact wait, so a request after it is admitted and an earlier one isn't", () => {
  let refused = 0
  forRandomRequests((buckets, now, random) => {
    const before = buckets.times()
    const { retryAfterMs } = buckets.take(now)
    if (retryAfterMs === 0) return
    refused++
    assert.deepEqual(buckets.times(), before, 'a denied request consumes nothing')
    const later = takeToken(before, buckets.limits, now + retryAfterMs)
    assert.equal(later.state.retryAfterMs, 0, JSON.stringify([buckets.limits, now, retryAfterMs]))
    const early = retryAfterMs * random() - 2 * FORGIVEN_MS
    if (early > 0) assert.ok(takeToken(before, buckets.limits, now + early).state.retryAfterMs > 0)
  })
  assert.ok(refused > 500, `${refused}`)
})

test('takeToken() never admits more than burst + perSecond × t in any period of t seconds', () => {
  let admitted: number[] = []
  forRandomRequests(
    (buckets, now) => {
      if (buckets.take(now).retryAfterMs === 0) admitted.push(now)
    },
    ({ key, organization }) => {
      for (const { perSecond, burst } of [key, organization]) assertNeverOver(admitted, perSecond, burst)
      admitted = []
    },
  )
})

function assertNeverOver(admitted: readonly number[], perSecond: number, burst: number): void {
  for (const [first, from] of admitted.entries()) {
    for (let last = first; last < admitted.length; last++) {
      const count = last - first + 1
      const windowMs = (admitted[last] ?? 0) - from + FORGIVEN_MS * count
      if (count <= burst + (perSecond * windowMs) / 1000 + 1e-6) continue
      assert.fail(`${count} within ${windowMs} ms at ${perSecond}/s, burst ${burst}`)
    }
  }
}

test('takeToken() admits `remaining` more requests at the same time, give or take a hundredth of a token', () => {
  let exact = 0
  forRandomRequests((buckets, now) => {
    const { key, organization } = buckets.take(now)
    const told = Math.min(key.remaining, organization.remaining)
    const admitted = drain(buckets.times(), buckets.limits, now)
    const isNear = isAlmostWhole(key) || isAlmostWhole(organization)
    if (!isNear) exact++
    assert.ok(Math.abs(admitted - told) <= (isNear ? 1 : 0), `${admitted} admitted, ${told} told`)
  })
  assert.ok(exact > (RUNS * REQUESTS) / 4, `${exact}`)
})

/**
 * Returns whether a bucket lacks less than about a hundredth of a token, which the tolerated error may or
 * may not count.
 */
function isAlmostWhole({ burst, resetMs, perSecond }: BucketState): boolean {
  const tokens = burst - (resetMs * perSecond) / 1000
  const missing = Math.ceil(tokens) - tokens
  return missing > 0 && missing < 0.011
}

/** Takes tokens until the bucket is empty. */
function drain(times: BucketTimes, by: RateLimits, now: number): number {
  for (let admitted = 0; ; admitted++) {
    const taken = takeToken(times, by, now)
    if (taken.state.retryAfterMs > 0) return admitted
    times = taken.times
  }
}

test('takeToken() fills both buckets after resetMs', () => {
  forRandomRequests((buckets, now) => {
    const { key, organization } = buckets.take(now)
    const full = now + Math.max(key.resetMs, organization.resetMs) + FORGIVEN_MS
    const { state } = takeToken(buckets.times(), buckets.limits, full)
    assert.equal(state.key.remaining, state.key.burst - 1)
    assert.equal(state.organization.remaining, state.organization.burst - 1)
  })
})
