import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { startSource } from './_program.ts'

test('examples/create-key prints a key that is good for every operation', async () => {
  const database = await createTestDatabase()
  const program = startSource(['examples/create-key.ts', 'org_own'], { DATABASE_URL: database.url })
  assert.equal(await program.exit, 0, program.stderr())

  const api = createBusinessApi(createPostgresStore(database.sql()))
  const key = program.stdout().trim()
  for (const resource of RESOURCES) {
    const url = `http://localhost/api/v1/${resource}`
    const response = await api.fetch(new Request(url, { headers: { Authorization: `Bearer ${key}` } }))
    assert.equal(response.status, 200, resource)
  }
  await database.drop()
})
