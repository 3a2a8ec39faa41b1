import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertError, assertSafeHeaders, idOf, listOf, type Platform, request } from './_api.ts'

// --- Rules that apply to all lists (section 4, rules 1 and 2) ---

/** A list operation, and a function that creates `count` records, oldest first, and returns their ids. */
export interface ListUnderTest {
  readonly path: string
  seed(organizationId: string, count: number): Promise<string[]>
}

/** Defines the tests that every list operation has to pass. */
export function testList(platform: Platform, { path, seed }: ListUnderTest): void {
  const name = `GET ${path.replace('/api/v1', '')}`

  async function idsOf(key: string, query = ''): Promise<unknown[]> {
    return listOf(await request(platform.api, `${path}${query}`, { key })).map(({ id }) => id)
  }

  describe(`${name} as a list`, () => {
    test(`${name} returns an empty list for an organization without records`, async () => {
      const { key } = await platform.organization()
      const answer = await request(platform.api, path, { key })
      assert.equal(answer.status, 200)
      assert.equal(answer.text, '{"data":[]}')
      assertSafeHeaders(answer)
      assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
    })

    test(`${name} returns the newest records first`, async () => {
      const { id, key } = await platform.organization()
      const seeded = await seed(id, 5)
      assert.deepEqual(await idsOf(key), seeded.toReversed())
    })

    test(`${name} returns up to limit items, 50 by default, 200 at most`, async () => {
      const { id, key } = await platform.organization()
      const newestFirst = (await seed(id, 201)).toReversed()
      assert.deepEqual(await idsOf(key), newestFirst.slice(0, 50))
      assert.deepEqual(await idsOf(key, '?limit=1'), newestFirst.slice(0, 1))
      assert.deepEqual(await idsOf(key, '?limit=51'), newestFirst.slice(0, 51))
      assert.deepEqual(await idsOf(key, '?limit=200'), newestFirst.slice(0, 200))
    })

    test(`${name} returns everything if limit is larger`, async () => {
      const { id, key } = await platform.organization()
      const seeded = await seed(id, 2)
      assert.deepEqual(await idsOf(key, '?limit=200'), seeded.toReversed())
    })

    test(`${name} only returns records of the key's organization`, async () => {
      const [ours, theirs] = [await platform.organization(), await platform.organization()]
      const [ourIds, theirIds] = [await seed(ours.id, 2), await seed(theirs.id, 3)]
      assert.deepEqual(await idsOf(ours.key), ourIds.toReversed())
      assert.deepEqual(await idsOf(theirs.key), theirIds.toReversed())
    })

    test(`${name} rejects a limit below 1 or above 200`, async () => {
      const { key } = await platform.organization()
      for (const limit of ['0', '201']) {
        assertError(await request(platform.api, `${path}?limit=${limit}`, { key }), 422, /limit/)
      }
    })
  })
}
