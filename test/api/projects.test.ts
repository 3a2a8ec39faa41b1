import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Project } from '../../lib/index.ts'
import { ids, listOf, plainCreation, request, startPlatform } from './_api.ts'
import { testList } from './_lists.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/projects'

const PROJECT: Omit<Project, 'id'> = {
  name: 'Showroom relaunch',
  status: 'active',
  billingType: 'retainer',
  value: 12000.5,
}

/** Creates a project for each set of changes, oldest first. */
async function seed(organizationId: string, changes: Partial<Project>[]): Promise<Project[]> {
  const projects = changes.map((change): Project => ({ id: ids('proj'), ...PROJECT, ...change }))
  await Promise.all(
    projects.map((project) => platform.store.projects.create(plainCreation(organizationId, project))),
  )
  return projects
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

describe('GET /projects', () => {
  test('GET /projects returns all fields of a project and no others', async () => {
    const { id, key } = await platform.organization()
    const [project] = await seed(id, [{}])
    const listed = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(listed, [project])
    assert.deepEqual(Object.keys(listed[0] ?? {}), ['id', 'name', 'status', 'billingType', 'value'])
  })

  test('GET /projects returns value as a JSON number', async () => {
    const { id, key } = await platform.organization()
    const projects = await seed(id, [
      { value: 0 },
      { value: 0.001 },
      { value: 100 },
      { value: 999_999_999_999.999 },
    ])
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), projects.toReversed())
  })
})
