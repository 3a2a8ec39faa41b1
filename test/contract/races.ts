import assert from 'node:assert/strict'
import type { RateLimits } from '../../lib/access/rate-limit.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from './audit-entry.ts'
import { claim as claimDeliveries, createPublisher } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { type Attempt, type Attempted, idsOf, type Kind, kinds } from './kinds.ts'
import { claim, createTenant, events, ids, requestOf, type Tenant, WEEK_MS } from './tenant.ts'

/** Tests the rules that must hold if everything happens concurrently in two processes. */
export function testRaces(harness: StoreHarness): void {
  testDuplicates(harness)
  for (const kind of [kinds.clients, kinds.leads]) testManyCreations(harness, kind)
  testSameCreations(harness)
  testTakeover(harness)
  testBursts(harness)
  testFirstRequests(harness)
  testListsUnderLimit(harness)
}

/** Runs `work` a number of times concurrently, every other time with the second store. */
async function atOnce<T>(
  { store, secondStore }: Tenant,
  count: number,
  work: (store: BusinessApiStore, index: number) => Promise<T>,
): Promise<T[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => work(index % 2 === 0 ? store : secondStore, index)),
  )
}

/** A store can write concurrent creations of an organization together, but each must have its own outcome. */
function testManyCreations(harness: StoreHarness, kind: Kind): void {
  harness.test(`many concurrent ${kind.name}.create() for API keys have their own outcomes`, async () => {
    const tenant = await createTenant(harness)
    const inForce = { apiKeyId: tenant.key.id }
    const revoked = await tenant.insertKey()
    await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
    const known = claim()
    const first = await kind.create(tenant, { ...inForce, idempotency: known })
    const same = claim()
    const attempts: readonly Attempt[] = [
      ...Array.from({ length: 20 }, () => ({ ...inForce, events: events(2) })),
      ...Array.from({ length: 20 }, () => ({ ...inForce, events: events(1), idempotency: claim() })),
      { ...inForce, idempotency: known },
      { ...inForce, idempotency: { ...known, fingerprint: 'e'.repeat(64) } },
      { apiKeyId: revoked.id, events: events(1) },
      { apiKeyId: revoked.id, events: events(1), idempotency: claim() },
      ...Array.from({ length: 3 }, () => ({ ...inForce, events: events(1), idempotency: same })),
    ]
    const tried = await Promise.all(attempts.map((attempt) => kind.create(tenant, attempt)))
    const outcomes = tried.map(({ outcome }) => outcome)
    assert.deepEqual(outcomes.slice(0, 44), [
      ...Array.from({ length: 40 }, () => ({ outcome: 'created' })),
      { outcome: 'replayed', reply: known.reply },
      { outcome: 'mismatch' },
      { outcome: 'unauthenticated' },
      { outcome: 'unauthenticated' },
    ])
    assert.deepEqual(
      outcomes
        .slice(44)
        .map(({ outcome }) => outcome)
        .sort(),
      ['created', 'replayed', 'replayed'],
    )
    const written = [first, ...tried].filter(({ outcome }) => outcome.outcome === 'created')
    assert.deepEqual(
      await idsOf(kind, tenant),
      written
        .map(({ id }) => id)
        .sort()
        .reverse(),
    )
    const published = tried.flatMap(({ outcome }, index) =>
      outcome.outcome === 'created' ? (attempts[index]?.events ?? []) : [],
    )
    const byId = (a: EventRecord, b: EventRecord) => a.id.localeCompare(b.id)
    const facts = ({ id, type, body }: EventRecord) => ({ id, type, body })
    assert.deepEqual((await tenant.events()).toSorted(byId).map(facts), published.toSorted(byId).map(facts))
  })
}

/** Asserts that one attempt created the record and all others replay its reply. Returns the id. */
function assertOneWinner(attempts: readonly Attempted[], replies: ReadonlyMap<string, string>): string {
  const winners = attempts.filter(({ outcome }) => outcome.outcome === 'created')
  assert.equal(winners.length, 1)
  const [winner] = winners
  assert.ok(winner, 'no attempt created the record')
  const expected = { outcome: 'replayed', reply: replies.get(winner.id) }
  for (const attempt of attempts) {
    if (attempt !== winner) assert.deepEqual(attempt.outcome, expected)
  }
  return winner.id
}

/** Races creations of clients with different replies and two events each for the same idempotency key. */
async function raceFor(
  tenant: Tenant,
  count: number,
): Promise<{ attempts: Attempted[]; replies: Map<string, string> }> {
  const replies = new Map<string, string>()
  const shared = claim({ key: 'the one key' })
  const attempts = await atOnce(tenant, count, async (store, index) => {
    const reply = `{"data":${index}}`
    const attempt = await kinds.clients.create(tenant, {
      store,
      events: events(2),
      idempotency: { ...shared, reply },
    })
    replies.set(attempt.id, reply)
    return attempt
  })
  return { attempts, replies }
}

function testDuplicates(harness: StoreHarness): void {
  harness.test(
    'of 200 concurrent creations with one idempotency key, one writes and 199 replay the reply',
    async () => {
      const tenant = await createTenant(harness)
      const { attempts, replies } = await raceFor(tenant, 200)
      const winner = assertOneWinner(attempts, replies)
      assert.deepEqual(await idsOf(kinds.clients, tenant), [winner])
      assert.equal((await tenant.events()).length, 2)
    },
  )

  harness.test(
    'a creation sent 50 times concurrently succeeds every time, and the record and the events exist once',
    async () => {
      const tenant = await createTenant(harness)
      const published = events(2)
      const first = await kinds.clients.create(tenant, { idempotency: claim(), events: published })
      const outcomes = await atOnce(tenant, 50, (store) => first.again(store))
      for (const outcome of outcomes) assert.deepEqual(outcome, { outcome: 'created' })
      assert.deepEqual(await idsOf(kinds.clients, tenant), [first.id])
      assert.deepEqual(await tenant.events(), published)
    },
  )
}

/** The record doesn't exist yet, so a store that writes creations together handles all of them at once. */
function testSameCreations(harness: StoreHarness): void {
  const reservations = {
    'without an idempotency key': () => ({}),
    'under several idempotency keys': () => ({ idempotency: claim() }),
  }
  for (const [under, reserve] of Object.entries(reservations)) {
    harness.test(
      `a creation for an API key, sent 20 times concurrently ${under}, writes the record and the events once`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        await tenant.insertEndpoint()
        const item = { ...kinds.clients.examples[0], id: ids('cli') }
        const published = events(2)
        const attempt = { apiKeyId: tenant.key.id, item, events: published }
        const attempts = await atOnce(tenant, 20, (store) =>
          kinds.clients.create(tenant, { ...attempt, ...reserve(), store }),
        )
        for (const { outcome } of attempts) assert.deepEqual(outcome, { outcome: 'created' })
        assert.deepEqual(await idsOf(kinds.clients, tenant), [item.id])
        assert.deepEqual(await tenant.events(), published)
        assert.equal((await claimDeliveries(tenant)).deliveries.length, 2)
      },
    )
  }
}

function testTakeover(harness: StoreHarness): void {
  harness.test(
    'of 50 concurrent creations with an expired idempotency key exactly one replaces it',
    async () => {
      const tenant = await createTenant(harness)
      const { id: first } = await kinds.clients.create(tenant, { idempotency: claim({ key: 'the one key' }) })
      await tenant.letTimePass(WEEK_MS + 1)
      const { attempts, replies } = await raceFor(tenant, 50)
      const winner = assertOneWinner(attempts, replies)
      assert.deepEqual(await idsOf(kinds.clients, tenant), [winner, first])
      assert.equal((await tenant.events()).length, 2)
    },
  )
}

function testBursts(harness: StoreHarness): void {
  const roomy = { perSecond: 10_000, burst: 10_000 }
  const tight = { perSecond: 10, burst: 100 }
  const cases: Record<string, RateLimits> = {
    'a key': { key: tight, organization: roomy },
    'an organization': { key: roomy, organization: tight },
  }
  for (const [whose, rateLimits] of Object.entries(cases)) {
    harness.test(
      `of 150 concurrent requests against a burst of 100 for ${whose}, 100 are admitted, plus any tokens refilled meanwhile`,
      async () => {
        const tenant = await createTenant(harness)
        const keys = whose === 'a key' ? [tenant.key] : [tenant.key, await tenant.insertKey()]
        const startedAt = performance.now()
        const admissions = await atOnce(tenant, 150, (store, index) =>
          store.apiKeys.admit(
            requestOf(keys[index % 4 < 2 ? 0 : keys.length - 1] ?? tenant.key, { rateLimits }),
          ),
        )
        const refilled = Math.floor(((performance.now() - startedAt) / 1000) * tight.perSecond)
        const admitted = admissions.filter(({ outcome }) => outcome === 'admitted').length
        const limited = admissions.filter(({ outcome }) => outcome === 'limited').length
        assert.equal(admitted + limited, 150)
        assert.ok(admitted >= 100 && admitted <= 100 + refilled, `${admitted} admitted, ${refilled} refilled`)
      },
    )
  }
}

function testFirstRequests(harness: StoreHarness): void {
  harness.test(
    'the first requests of an organization, with four keys concurrently, all succeed',
    async () => {
      const limit = { perSecond: 100, burst: 100 }
      // Missing buckets are only created once. With several organizations, a wrong order is likely to show up.
      for (let round = 0; round < 15; round++) {
        const tenant = await createTenant(harness)
        const keys = [
          tenant.key,
          await tenant.insertKey(),
          await tenant.insertKey(),
          await tenant.insertKey(),
        ]
        const admissions = await atOnce(tenant, 40, (store, index) => {
          const key = keys[Math.floor(index / 2) % keys.length] ?? tenant.key
          return store.apiKeys.admit(requestOf(key, { rateLimits: { key: limit, organization: limit } }))
        })
        for (const { outcome } of admissions) assert.equal(outcome, 'admitted')
      }
    },
  )
}

function testListsUnderLimit(harness: StoreHarness): void {
  harness.test('a list admitted at the limit, among 300 concurrent ones, is never empty', async () => {
    const tenant = await createTenant(harness)
    const { id } = await kinds.clients.create(tenant)
    const limit = { perSecond: 1000, burst: 1 }
    const request = requestOf(tenant.key, { rateLimits: { key: limit, organization: limit } })
    const answers = await atOnce(tenant, 300, (store) => store.clients.admitAndList(request, { limit: 50 }))
    for (const { admission, page } of answers) {
      const shown =
        page === null ? null : (JSON.parse(String(page)) as { id: string }[]).map((item) => item.id)
      assert.deepEqual(shown, admission.outcome === 'admitted' ? [id] : null)
    }
  })
}
