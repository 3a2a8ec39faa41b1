import assert from 'node:assert/strict'
import type { EndpointRecord, SealedEndpoint, SealedForms } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import { createPublisher } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { entriesOf } from './settings-changes.ts'
import { callAtOnce, ids, type Tenant } from './tenant.ts'

const OVERLAP_MS = 3_600_000

/** Tests that sealed credentials of endpoints can be listed and replaced with those sealed by another key. */
export function testResealing(harness: StoreHarness): void {
  testListed(harness)
  testExchanged(harness)
}

/** Returns only this organization's endpoints, because a store sees no others with row-level security. */
async function listOf(tenant: Tenant, limit = 1000): Promise<SealedEndpoint[]> {
  const found: SealedEndpoint[] = []
  let after = { organizationId: tenant.id, endpointId: '' }
  for (;;) {
    const part = await tenant.store.endpoints.listSealed(limit, after)
    assert.ok(part.length <= limit, `a part of ${part.length}`)
    const ours = part.filter(({ organizationId }) => organizationId === tenant.id)
    found.push(...ours)
    const last = ours.at(-1)
    if (!last || ours.length < limit) return found
    after = last
  }
}

async function onlyOf(tenant: Tenant): Promise<SealedEndpoint> {
  const [endpoint, ...others] = await listOf(tenant)
  assert.ok(endpoint && others.length === 0, `one endpoint, and ${others.length} others`)
  return endpoint
}

function formsOf({ sealedSecret, previousSealedSecret, sealedHeaders }: SealedForms): SealedForms {
  return { sealedSecret, previousSealedSecret, sealedHeaders }
}

function rotate({ id: organizationId, store }: Tenant, endpointId: string, sealedSecret: string) {
  const change = { changeId: ids('chg'), overlapMs: OVERLAP_MS, entry: newEntry({ subjectId: endpointId }) }
  return store.endpoints.rotateSecret({ organizationId, endpointId, sealedSecret, ...change })
}

const HEADERS = { headerNames: ['X-A', 'é "'], sealedHeaders: 'headers \'"\\é🏺' }

function testListed(harness: StoreHarness): void {
  harness.test(
    'endpoints.listSealed() returns the sealed values of all endpoints, in order, part by part',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const [one, two, three, removed] = [
        await tenant.insertEndpoint({ sealedSecret: 'one', ...HEADERS }),
        await tenant.insertEndpoint({ sealedSecret: 'two' }),
        await tenant.insertEndpoint({ sealedSecret: 'three' }),
        await tenant.insertEndpoint(),
      ]
      await rotate(tenant, two.id, 'two anew')
      const { store, id: organizationId } = tenant
      await store.endpoints.remove({ organizationId, endpointId: removed.id, entry: newEntry() })
      const of = (endpoint: EndpointRecord, changes: Partial<SealedEndpoint> = {}) => ({
        organizationId,
        endpointId: endpoint.id,
        headerNames: endpoint.headerNames,
        sealedSecret: endpoint.sealedSecret,
        previousSealedSecret: null,
        isPreviousExpired: false,
        sealedHeaders: endpoint.sealedHeaders,
        ...changes,
      })
      const expected = [
        of(one),
        of(two, { sealedSecret: 'two anew', previousSealedSecret: 'two' }),
        of(three),
      ].sort((left, right) => (left.endpointId < right.endpointId ? -1 : 1))
      assert.ok(
        (await store.endpoints.listSealed(1000, null)).some(({ endpointId }) => endpointId === one.id),
        'the endpoint is not listed',
      )
      for (const limit of [1, 2, 1000]) assert.deepEqual(await listOf(tenant, limit), expected)
      await tenant.letTimePass(OVERLAP_MS + 1)
      const expired = expected.map((endpoint) => ({
        ...endpoint,
        isPreviousExpired: endpoint.endpointId === two.id,
      }))
      assert.deepEqual(await listOf(tenant), expired)
    },
  )
}

function testExchanged(harness: StoreHarness): void {
  const TO = { sealedSecret: 'anew', previousSealedSecret: 'previous anew', sealedHeaders: 'headers anew' }

  async function setUp(t: Parameters<typeof createPublisher>[1]) {
    const tenant = await createPublisher(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint({ sealedSecret: 'one', ...HEADERS })
    await rotate(tenant, endpointId, 'two')
    const from = formsOf(await onlyOf(tenant))
    const exchange = (
      changes: { readonly from?: SealedForms; readonly to?: SealedForms } = {},
      store = tenant.store,
    ) => store.endpoints.exchangeSealed({ organizationId: tenant.id, endpointId, from, to: TO, ...changes })
    return { tenant, endpointId, from, exchange }
  }

  harness.test(
    'endpoints.exchangeSealed() replaces all sealed values together and changes nothing else',
    async (t) => {
      const { tenant, endpointId, exchange } = await setUp(t)
      const before = [await tenant.store.endpoints.list(tenant.id), await entriesOf(tenant)]
      assert.equal(await exchange(), true)
      assert.deepEqual(formsOf(await onlyOf(tenant)), TO)
      assert.deepEqual([await tenant.store.endpoints.list(tenant.id), await entriesOf(tenant)], before)
      const target = await tenant.secondStore.endpoints.getTarget(tenant.id, endpointId)
      assert.deepEqual(target?.sealedSecrets, ['anew', 'previous anew'])
      assert.deepEqual([target?.headerNames, target?.sealedHeaders], [HEADERS.headerNames, 'headers anew'])
      assert.equal(await exchange({}, tenant.secondStore), true, 'sent again after a lost answer')
      assert.deepEqual(formsOf(await onlyOf(tenant)), TO)
    },
  )

  harness.test('endpoints.exchangeSealed() can drop a previous secret', async (t) => {
    const { tenant, endpointId, exchange } = await setUp(t)
    const to = { ...TO, previousSealedSecret: null }
    assert.equal(await exchange({ to }), true)
    assert.deepEqual(formsOf(await onlyOf(tenant)), to)
    const target = await tenant.store.endpoints.getTarget(tenant.id, endpointId)
    assert.deepEqual(target?.sealedSecrets, ['anew'])
    assert.equal((await tenant.store.endpoints.list(tenant.id))[0]?.previousSecretExpiresAt, null)
    assert.equal(await exchange({ to }), true, 'sent again after a lost answer')
  })

  harness.test(
    'endpoints.exchangeSealed() changes nothing if a value was changed in the meantime',
    async (t) => {
      const { tenant, from, exchange } = await setUp(t)
      for (const other of [
        { sealedSecret: 'other' },
        { previousSealedSecret: 'other' },
        { previousSealedSecret: null },
        { sealedHeaders: 'other' },
        { sealedHeaders: null },
      ]) {
        assert.equal(await exchange({ from: { ...from, ...other } }), false, JSON.stringify(other))
      }
      assert.deepEqual(formsOf(await onlyOf(tenant)), from)
    },
  )

  harness.test(
    'endpoints.exchangeSealed() does not undo a rotation or a change of headers, and ignores a removed endpoint',
    async (t) => {
      const rotated = await setUp(t)
      await rotate(rotated.tenant, rotated.endpointId, 'three')
      const after = formsOf(await onlyOf(rotated.tenant))
      assert.equal(await rotated.exchange(), false)
      assert.deepEqual(formsOf(await onlyOf(rotated.tenant)), after)

      const patched = await setUp(t)
      const { tenant, endpointId } = patched
      const change = { organizationId: tenant.id, endpointId, entry: newEntry() }
      const headers = { headerNames: [], sealedHeaders: null, replaces: HEADERS.sealedHeaders }
      await tenant.store.endpoints.update({ ...change, changes: { headers } })
      assert.equal(await patched.exchange(), false)

      const removed = await setUp(t)
      await removed.tenant.store.endpoints.remove({
        organizationId: removed.tenant.id,
        endpointId: removed.endpointId,
        entry: newEntry(),
      })
      assert.equal(await removed.exchange(), false)
      assert.deepEqual(await listOf(removed.tenant), [])
    },
  )

  harness.test(
    'endpoints.exchangeSealed() ten times concurrently to different values in two processes replaces once',
    async (t) => {
      const { tenant, exchange } = await setUp(t)
      let count = 0
      const exchanged = await callAtOnce(tenant, (store) => {
        const to = { ...TO, sealedSecret: `anew ${++count}` }
        return exchange({ to }, store)
      })
      assert.equal(exchanged.filter(Boolean).length, 1)
    },
  )

  harness.test('endpoints.exchangeSealed() cannot reach an endpoint of another organization', async (t) => {
    const [ours, theirs] = [await setUp(t), await setUp(t)]
    const { endpointId, from } = theirs
    const request = { organizationId: ours.tenant.id, endpointId, from, to: TO }
    assert.equal(await ours.tenant.store.endpoints.exchangeSealed(request), false)
    assert.deepEqual(formsOf(await onlyOf(theirs.tenant)), from)
  })
}
