import assert from 'node:assert/strict'
import type { StoreHarness } from './harness.ts'
import { idsOf, itemsOf, type Kind, kinds, pageOf } from './kinds.ts'
import { createTenant, requestOf, UNKNOWN_KEY } from './tenant.ts'

const ONE_TOKEN = {
  key: { perSecond: 0.01, burst: 1 },
  organization: { perSecond: 0.01, burst: 10 },
}

/** Tests the rules that all lists have in common. */
export function testLists(harness: StoreHarness): void {
  for (const kind of Object.values(kinds)) testList(harness, kind)
}

function testList(harness: StoreHarness, kind: Kind): void {
  const list = `${kind.name}.list()`

  harness.test(`${list} returns an empty page, not null, for an organization without records`, async () => {
    const tenant = await createTenant(harness)
    const { page } = await kind.admitAndList(tenant.store, requestOf(tenant.key, { scope: kind.scope }), {
      limit: 50,
    })
    assert.equal(String(page), '[]')
  })

  harness.test(`${list} returns the newest id first, whatever the order of writing`, async () => {
    const tenant = await createTenant(harness)
    const items = kind.examples.toReversed()
    for (const item of [...items.slice(3), ...items.slice(0, 3)]) await kind.create(tenant, { item })
    assert.deepEqual(
      await idsOf(kind, tenant),
      items.map(({ id }) => id),
    )
  })

  harness.test(`${list} returns up to limit records, and all if limit is larger`, async () => {
    const tenant = await createTenant(harness)
    const created = await Promise.all(Array.from({ length: 201 }, () => kind.create(tenant)))
    const newestFirst = created
      .map(({ id }) => id)
      .sort()
      .reverse()
    for (const limit of [1, 2, 50, 199, 200]) {
      assert.deepEqual(await idsOf(kind, tenant, limit), newestFirst.slice(0, limit), `limit ${limit}`)
    }
    const few = await createTenant(harness)
    const { id } = await kind.create(few)
    assert.deepEqual(await idsOf(kind, few, 200), [id])
  })

  harness.test(`${list} pages before an id, and returns next if there are older records`, async () => {
    const tenant = await createTenant(harness)
    const created = await Promise.all(Array.from({ length: 7 }, () => kind.create(tenant)))
    const newestFirst = created
      .map(({ id }) => id)
      .sort()
      .reverse()
    for (const limit of [1, 2, 6, 7, 200]) {
      const read: string[] = []
      for (let before: string | null | undefined; before !== null; ) {
        const page = await pageOf(kind, tenant, { limit, ...(before === undefined ? {} : { before }) })
        const expected = newestFirst.slice(read.length, read.length + limit)
        assert.deepEqual(page.ids, expected)
        read.push(...page.ids)
        assert.equal(page.next, read.length < 7 ? expected.at(-1) : null, `after ${read.length} by ${limit}`)
        before = page.next
      }
      assert.deepEqual(read, newestFirst, `limit ${limit}`)
    }
  })

  harness.test(`${list} accepts a before id that does not exist`, async () => {
    const tenant = await createTenant(harness)
    const created = await Promise.all(Array.from({ length: 3 }, () => kind.create(tenant)))
    const [first = '', second = '', third = ''] = created.map(({ id }) => id).sort()
    const before = (id: string) => pageOf(kind, tenant, { limit: 1, before: id })
    assert.deepEqual(await before(`${third}_`), { ids: [third], next: third })
    assert.deepEqual(await before(`${second}_`), { ids: [second], next: second })
    assert.deepEqual(await before(`${first}_`), { ids: [first], next: null })
    assert.deepEqual(await before(first), { ids: [], next: null })
    assert.deepEqual(await before(''), { ids: [], next: null })
  })

  harness.test(`${list} returns all fields as created and no others`, async () => {
    const tenant = await createTenant(harness)
    for (const item of kind.examples) await kind.create(tenant, { item })
    assert.deepEqual(await itemsOf(kind, tenant), kind.examples.toReversed())
  })

  harness.test(`${list} returns a record that was just written by another store`, async () => {
    const tenant = await createTenant(harness)
    const { id } = await kind.create(tenant, { store: tenant.secondStore })
    assert.deepEqual(await idsOf(kind, tenant), [id])
  })

  harness.test(
    `${list} returns no page for a key that is unknown, lacks the scope or is over the limit`,
    async () => {
      const tenant = await createTenant(harness)
      await kind.create(tenant)
      const narrow = await tenant.insertKey({ scopes: ['clients:write'] })
      const limited = requestOf(tenant.key, { scope: kind.scope, rateLimits: ONE_TOKEN })
      assert.notEqual((await kind.admitAndList(tenant.store, limited, { limit: 50 })).page, null)

      const verdicts = [
        await kind.admitAndList(tenant.store, requestOf(UNKNOWN_KEY, { scope: kind.scope }), { limit: 50 }),
        await kind.admitAndList(tenant.store, requestOf(narrow, { scope: kind.scope }), { limit: 50 }),
        await kind.admitAndList(tenant.store, limited, { limit: 50 }),
      ]
      assert.deepEqual(
        verdicts.map(({ admission, page }) => [admission.outcome, page]),
        [
          ['unauthenticated', null],
          ['forbidden', null],
          ['limited', null],
        ],
      )
    },
  )

  harness.test(`${list} checks a request like admit() and takes the same tokens`, async () => {
    const tenant = await createTenant(harness)
    const request = requestOf(tenant.key, {
      scope: kind.scope,
      rateLimits: { ...ONE_TOKEN, key: { perSecond: 0.01, burst: 5 } },
    })
    const { admission } = await kind.admitAndList(tenant.store, request, { limit: 50 })
    assert.ok(admission.outcome === 'admitted', admission.outcome)
    assert.deepEqual(admission.caller, { organizationId: tenant.id, keyId: tenant.key.id })
    assert.equal(admission.lastUseIsStale, true)
    assert.equal(admission.rateLimit?.key.remaining, 4)

    const next = await tenant.store.apiKeys.admit(request)
    assert.ok(next.outcome === 'admitted', next.outcome)
    assert.equal(next.rateLimit?.key.remaining, 3)
    assert.equal(next.rateLimit?.organization.remaining, 8)
  })
}
