import assert from 'node:assert/strict'
import { newLead } from '../../lib/resources/leads.ts'
import type { StoreHarness } from './harness.ts'
import { idsOf, type Kind, kinds, type Outcome } from './kinds.ts'
import { claim, createTenant, events, ids, type Tenant, WEEK_MS } from './tenant.ts'

/** Tests idempotency keys (specification, section 4, rule 4, and decisions.md, section 3). */
export function testIdempotency(harness: StoreHarness): void {
  for (const kind of Object.values(kinds)) testReplay(harness, kind)
  testEntries(harness)
  testWindow(harness)
  testLeads(harness)
}

const OTHER_FINGERPRINT = '0'.repeat(64)

function testReplay(harness: StoreHarness, kind: Kind): void {
  const create = `${kind.name}.create()`

  harness.test(
    `${create} with a used key replays the first reply byte for byte and writes nothing`,
    async () => {
      const tenant = await createTenant(harness)
      const first = claim()
      const published = events(2)
      const { id } = await kind.create(tenant, { idempotency: first, events: published })
      for (const store of [tenant.store, tenant.secondStore]) {
        // The reply differs because the retry has created a record with a different id.
        const idempotency = { ...first, reply: '{"data":"not this one"}' }
        const retry = await kind.create(tenant, { idempotency, events: events(2), store })
        assert.deepEqual(retry.outcome, { outcome: 'replayed', reply: first.reply })
      }
      assert.deepEqual(await idsOf(kind, tenant), [id])
      assert.deepEqual(await tenant.events(), published)
    },
  )

  harness.test(
    `${create} with a key used with a different fingerprint is a mismatch and writes nothing`,
    async () => {
      const tenant = await createTenant(harness)
      const first = claim()
      const published = events(1)
      const { id } = await kind.create(tenant, { idempotency: first, events: published })
      const other = { ...first, fingerprint: OTHER_FINGERPRINT }
      const { outcome } = await kind.create(tenant, { idempotency: other, events: events(1) })
      assert.deepEqual(outcome, { outcome: 'mismatch' })
      assert.deepEqual(await idsOf(kind, tenant), [id])
      assert.deepEqual(await tenant.events(), published)
      const retry = await kind.create(tenant, { idempotency: first })
      assert.deepEqual(retry.outcome, { outcome: 'replayed', reply: first.reply }, 'the first entry stands')
    },
  )
}

function testEntries(harness: StoreHarness): void {
  async function expectCreated(tenant: Tenant, idempotency: ReturnType<typeof claim>): Promise<void> {
    const { outcome } = await kinds.clients.create(tenant, { idempotency })
    assert.deepEqual(outcome, { outcome: 'created' }, `${idempotency.operation} ${idempotency.key}`)
  }

  harness.test('an idempotency key is independent of other operations', async () => {
    const tenant = await createTenant(harness)
    const first = claim()
    await expectCreated(tenant, first)
    await expectCreated(tenant, { ...first, operation: 'POST /api/v1/leads', fingerprint: OTHER_FINGERPRINT })
  })

  harness.test('an idempotency key is independent of other organizations', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    const first = claim()
    await expectCreated(ours, first)
    await expectCreated(theirs, { ...first, fingerprint: OTHER_FINGERPRINT, reply: '"theirs"' })
    const { outcome } = await kinds.clients.create(ours, { idempotency: first })
    assert.deepEqual(outcome, { outcome: 'replayed', reply: first.reply })
  })

  harness.test('idempotency keys are opaque, so case, order and all characters matter', async () => {
    const tenant = await createTenant(harness)
    for (const key of ['a', 'A', 'a,b', 'b,a', "'a", '"a"', 'a\\', '%61', '{"a":1}', '~'.repeat(200)]) {
      await expectCreated(tenant, claim({ key }))
    }
    // Pairs that would be the same string if simply concatenated.
    for (const [operation, key] of [
      ['x', 'yz'],
      ['xy', 'z'],
      ['x', '","z'],
      ['x","', 'z'],
      ['x:y', 'z'],
      ['x', 'y:z'],
    ]) {
      await expectCreated(tenant, claim({ operation: operation ?? '', key: key ?? '' }))
    }
  })
}

function testWindow(harness: StoreHarness): void {
  harness.test(
    'an entry is replayed until its window ends, and then replaced with a new reply and window',
    async () => {
      const tenant = await createTenant(harness)
      const first = claim()
      const { id: firstId } = await kinds.clients.create(tenant, { idempotency: first })
      await tenant.letTimePass(WEEK_MS - 60_000)
      const early = await kinds.clients.create(tenant, { idempotency: first })
      assert.deepEqual(early.outcome, { outcome: 'replayed', reply: first.reply })

      await tenant.letTimePass(60_001)
      const second = { ...first, fingerprint: OTHER_FINGERPRINT, reply: '{"data":"second"}' }
      const { id: secondId, outcome } = await kinds.clients.create(tenant, { idempotency: second })
      assert.deepEqual(outcome, { outcome: 'created' })
      assert.deepEqual(await idsOf(kinds.clients, tenant), [secondId, firstId])

      await tenant.letTimePass(WEEK_MS - 60_000)
      const replay = await kinds.clients.create(tenant, { idempotency: second })
      assert.deepEqual(replay.outcome, { outcome: 'replayed', reply: '{"data":"second"}' })
      const mismatch = await kinds.clients.create(tenant, { idempotency: first })
      assert.deepEqual(mismatch.outcome, { outcome: 'mismatch' })
    },
  )

  harness.test(
    'a creation sent again after its window has ended succeeds and duplicates nothing',
    async () => {
      const tenant = await createTenant(harness)
      const published = events(2)
      const { id, again } = await kinds.clients.create(tenant, { idempotency: claim(), events: published })
      await tenant.letTimePass(WEEK_MS + 1)
      assert.deepEqual(await again(), { outcome: 'created' })
      assert.deepEqual(await idsOf(kinds.clients, tenant), [id])
      assert.deepEqual(await tenant.events(), published)
    },
  )
}

function testLeads(harness: StoreHarness): void {
  async function createLead(
    tenant: Tenant,
    businessId: string,
    idempotency: ReturnType<typeof claim>,
  ): Promise<Outcome> {
    const { record, events } = newLead({ businessId }, { ids, now: Date.now() })
    return tenant.store.leads.create({ organizationId: tenant.id, record, events, idempotency })
  }

  harness.test(
    'no_business does not use up the key, which can be used once the business exists',
    async () => {
      const tenant = await createTenant(harness)
      const idempotency = claim()
      assert.deepEqual(await createLead(tenant, ids('biz'), idempotency), { outcome: 'no_business' })
      const businessId = await tenant.insertBusiness()
      const second = { ...idempotency, fingerprint: OTHER_FINGERPRINT, reply: '{"data":"second"}' }
      assert.deepEqual(await createLead(tenant, businessId, second), { outcome: 'created' })
      assert.deepEqual(await createLead(tenant, businessId, second), {
        outcome: 'replayed',
        reply: '{"data":"second"}',
      })
      assert.equal((await tenant.events()).length, 1)
    },
  )

  harness.test(
    'an active entry has precedence, so replay and mismatch do not query the business',
    async () => {
      const tenant = await createTenant(harness)
      const first = claim()
      await createLead(tenant, await tenant.insertBusiness(), first)
      const replay = await createLead(tenant, ids('biz'), first)
      assert.deepEqual(replay, { outcome: 'replayed', reply: first.reply })
      const mismatch = await createLead(tenant, ids('biz'), { ...first, fingerprint: OTHER_FINGERPRINT })
      assert.deepEqual(mismatch, { outcome: 'mismatch' })
    },
  )

  harness.test(
    'an expired entry is ignored, so no_business is returned and the entry can still be replaced',
    async () => {
      const tenant = await createTenant(harness)
      const first = claim()
      const businessId = await tenant.insertBusiness()
      await createLead(tenant, businessId, first)
      await tenant.letTimePass(WEEK_MS + 1)
      assert.deepEqual(await createLead(tenant, ids('biz'), first), { outcome: 'no_business' })
      assert.deepEqual(await createLead(tenant, businessId, first), { outcome: 'created' })
    },
  )
}
