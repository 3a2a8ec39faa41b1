import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Proposal } from '../../lib/index.ts'
import { ids, listOf, plainCreation, request, startPlatform } from './_api.ts'
import { testList } from './_lists.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/proposals'

const PROPOSAL: Omit<Proposal, 'id' | 'number'> = {
  title: 'Website and hosting',
  status: 'sent',
  version: 2,
  total: 4800,
  monthlyTotal: 150.5,
  currency: 'EUR',
}

let numbers = 0

/** Creates a proposal for each set of changes, oldest first. */
async function seed(organizationId: string, changes: Partial<Proposal>[]): Promise<Proposal[]> {
  const proposals = changes.map((change): Proposal => {
    numbers++
    return { id: ids('prop'), number: `PROP-${numbers}`, ...PROPOSAL, ...change }
  })
  await Promise.all(
    proposals.map((proposal) => platform.store.proposals.create(plainCreation(organizationId, proposal))),
  )
  return proposals
}

testList(platform, {
  path: PATH,
  seed: async (organizationId, count) =>
    (
      await seed(
        organizationId,
        Array.from({ length: count }, () => ({})),
      )
    ).map(({ id }) => id),
})

describe('GET /proposals', () => {
  test('GET /proposals returns all fields of a proposal and no others', async () => {
    const { id, key } = await platform.organization()
    const [proposal] = await seed(id, [{}])
    const listed = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(listed, [proposal])
    assert.deepEqual(Object.keys(listed[0] ?? {}), [
      'id',
      'number',
      'title',
      'status',
      'version',
      'total',
      'monthlyTotal',
      'currency',
    ])
  })

  test('GET /proposals returns version, total and monthlyTotal as JSON numbers', async () => {
    const { id, key } = await platform.organization()
    const proposals = await seed(id, [
      { version: 1, total: 0, monthlyTotal: 0.125 },
      { version: 2_147_483_647, total: 999_999_999_999.999, monthlyTotal: 100 },
    ])
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), proposals.toReversed())
  })
})
