import assert from 'node:assert/strict'
import { createItem, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { changesOf, type Kind, kinds } from './kinds.ts'
import { createTenant, requestOf, type Tenant, UNKNOWN_KEY } from './tenant.ts'

const EVERYTHING = { time: '1970-01-01T00:00:00.000Z' }

/** Tests that lists of changes contain all changes. A store can return more than that. */
export function testSync(harness: StoreHarness): void {
  for (const kind of Object.values(kinds)) {
    testPasses(harness, kind)
    testBeginnings(harness, kind)
  }
  testVerbs(harness)
}

/** Creates records one after another and returns their ids. */
async function createInTurn(kind: Kind, tenant: Tenant, count: number): Promise<string[]> {
  const created: string[] = []
  for (let index = 0; index < count; index++) created.push((await kind.create(tenant)).id)
  return created
}

function testPasses(harness: StoreHarness, kind: Kind): void {
  harness.test(
    `${kind.name}.list() since the beginning returns each record once, in pages that never happen to be exactly full`,
    async () => {
      const tenant = await createTenant(harness)
      const created = await createInTurn(kind, tenant, 6)
      for (const [limit, lengths] of [
        [1, [1, 1, 1, 1, 1, 1]],
        [3, [3, 3]],
        [4, [4, 2]],
        [6, [6]],
        [200, [6]],
      ] as const) {
        const { pages } = await changesOf(kind, tenant, EVERYTHING, limit)
        assert.deepEqual(
          pages.map(({ length }) => length),
          lengths,
        )
        assert.deepEqual(pages.flat(), created, `limit ${limit}`)
      }
    },
  )

  harness.test(`${kind.name}.list() from a position returns what was created since then`, async () => {
    const tenant = await createTenant(harness)
    await createInTurn(kind, tenant, 3)
    let { position } = await changesOf(kind, tenant, EVERYTHING, 2)
    for (let round = 0; round < 3; round++) {
      const created = await createInTurn(kind, tenant, 3)
      const pass = await changesOf(kind, tenant, { position }, 2)
      assert.deepEqual(pass.pages.flat().slice(-3), created)
      position = pass.position
    }
    const empty = await changesOf(kind, tenant, { position })
    assert.equal(empty.pages.length, 1)
  })

  harness.test(`${kind.name}.list() from the position of any page returns the rest`, async () => {
    const tenant = await createTenant(harness)
    const created = await createInTurn(kind, tenant, 5)
    const first = await kind.admitAndList(tenant.store, requestOf(tenant.key, { scope: kind.scope }), {
      limit: 2,
      since: EVERYTHING,
    })
    const more = await createInTurn(kind, tenant, 1)
    const rest = await changesOf(kind, tenant, { position: first.position ?? '' }, 2)
    assert.deepEqual(rest.pages.flat(), [...created.slice(2), ...more])
  })
}

function testBeginnings(harness: StoreHarness, kind: Kind): void {
  harness.test(`${kind.name}.list() starts over if the store cannot use the position`, async () => {
    const tenant = await createTenant(harness)
    const created = await createInTurn(kind, tenant, 3)
    const { position } = await changesOf(kind, tenant, EVERYTHING)
    for (const unknown of [
      '',
      'x',
      '\u{1f3fa}',
      `${position} x`.slice(0, 1),
      'c 1 999999999999 - - ',
      'x'.repeat(700),
    ]) {
      assert.deepEqual(
        (await changesOf(kind, tenant, { position: unknown }, 2)).pages.flat(),
        created,
        unknown,
      )
    }
  })

  harness.test(`${kind.name}.list() since a time omits what has not changed since then`, async () => {
    const tenant = await createTenant(harness)
    await createInTurn(kind, tenant, 2)
    const later = { time: new Date(Date.now() + 3_600_000).toISOString() }
    const { pages, position } = await changesOf(kind, tenant, later)
    assert.deepEqual(pages, [[]])
    const created = await createInTurn(kind, tenant, 1)
    assert.deepEqual((await changesOf(kind, tenant, { position })).pages.flat().slice(-1), created)
  })

  harness.test(
    `${kind.name}.list() of changes returns nothing of another organization, and nothing if the caller is not admitted`,
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      await createInTurn(kind, theirs, 2)
      const { position } = await changesOf(kind, theirs, EVERYTHING)
      assert.deepEqual((await changesOf(kind, ours, EVERYTHING)).pages, [[]])
      for (const since of [EVERYTHING, { position }, { position: '' }]) {
        assert.deepEqual((await changesOf(kind, ours, since)).pages, [[]])
        const answer = await kind.admitAndList(ours.store, requestOf(UNKNOWN_KEY, { scope: kind.scope }), {
          limit: 1,
          since,
        })
        assert.deepEqual(answer, { admission: { outcome: 'unauthenticated' }, page: null })
      }
    },
  )

  harness.test(`${kind.name}.list() of changes takes one token, even if it starts over`, async () => {
    const tenant = await createTenant(harness)
    await createInTurn(kind, tenant, 1)
    const rateLimits = { key: { perSecond: 0.01, burst: 1 }, organization: { perSecond: 0.01, burst: 10 } }
    const request = requestOf(tenant.key, { scope: kind.scope, rateLimits })
    const first = await kind.admitAndList(tenant.store, request, {
      limit: 1,
      since: { position: 'c 1 1 - - ' },
    })
    assert.equal(first.admission.outcome, 'admitted')
    assert.equal(JSON.parse(String(first.page)).length, 1)
    const second = await kind.admitAndList(tenant.store, request, { limit: 1, since: EVERYTHING })
    assert.deepEqual([second.admission.outcome, second.page], ['limited', null])
  })
}

function testVerbs(harness: StoreHarness): void {
  for (const verb of Object.values(verbs)) {
    harness.test(`${verb.name} makes its record count as changed`, async () => {
      const tenant = await createTenant(harness)
      const [item, other] = [await createItem(tenant, verb), await createItem(tenant, verb)]
      const before = await changesOf(verb.kind, tenant, EVERYTHING)
      assert.deepEqual(before.pages.flat(), [item.id, other.id])
      assert.equal((await verb.prepare(tenant, item.id).send()).outcome, 'changed')
      assert.deepEqual(
        (await changesOf(verb.kind, tenant, { position: before.position })).pages.flat().slice(-1),
        [item.id],
      )
      assert.deepEqual((await changesOf(verb.kind, tenant, EVERYTHING)).pages.flat(), [other.id, item.id])
    })
  }
}
