import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, textOf } from './_cli.ts'
import { newOrganization } from './_settings.ts'

// The deletion of an organization from the command line.

let database: TestDatabase
let store: PostgresStore
let platform: Platform

before(async () => {
  database = await createTestDatabase()
  store = createPostgresStore(database.url, { maxConnections: 2 })
  platform = createPlatform(store)
})

after(async () => {
  await store.close()
  await database.drop()
})

async function filled(): Promise<string> {
  const org = newOrganization()
  await platform.clients.create(org, { name: 'Atlas' })
  return org
}

async function clientsOf(org: string): Promise<number> {
  return (await platform.clients.list(org)).data.length
}

test('organizations delete asks for the id, and deletes after it', async () => {
  const org = await filled()
  for (const answer of ['y', 'yes', `${org}x`, null]) {
    const refused = await cliOn(database.url, { columns: 80, answer })('organizations', 'delete', org)
    assert.equal(refused.exitCode, 1)
    assert.match(
      refused.stderr.replaceAll(/\s+/g, ' '),
      /Type the id of the organization.*Nothing was changed/,
    )
  }
  assert.equal(await clientsOf(org), 1)
  const result = await cliOn(database.url, { columns: 80, answer: org })('organizations', 'delete', org)
  assert.match(textOf(result), /^Deleted 4 rows\n$/)
  assert.equal(await clientsOf(org), 0)
})

test('organizations delete without a terminal needs the id twice; a dry run changes nothing', async () => {
  const org = await filled()
  const run = cliOn(database.url)
  assertFailed(await run('organizations', 'delete', org), 2, /no terminal to ask in.*--confirm/)
  assertFailed(await run('organizations', 'delete', org, '--confirm', 'x'), 2, /--confirm is not the id/)
  const dryRun = jsonOf(await run('organizations', 'delete', org, '--dry-run', '--json'))
  assert.deepEqual(dryRun, { dryRun: true, keys: 0, endpoints: 0 })
  assert.equal(await clientsOf(org), 1)
  const { deleted } = jsonOf(await run('organizations', 'delete', org, '--confirm', org, '--json'))
  assert.deepEqual(deleted, { businesses: 1, clients: 1, events: 2 })
})
