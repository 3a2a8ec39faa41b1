import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, textOf } from './_cli.ts'
import { newOrganization } from './_settings.ts'

// Deletes organizations and the personal data of businesses from the command line.

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

test('organizations delete asks for the id before it deletes anything', async () => {
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
  assert.match(textOf(result), /^Deleted 3 rows\n$/)
  assert.equal(await clientsOf(org), 0)
})

test('organizations delete requires the id twice without a terminal, and a dry run changes nothing', async () => {
  const org = await filled()
  const run = cliOn(database.url)
  assertFailed(await run('organizations', 'delete', org), 2, /no terminal to confirm in.*--confirm/)
  assertFailed(await run('organizations', 'delete', org, '--confirm', 'x'), 2, /--confirm is not the id/)
  const dryRun = jsonOf(await run('organizations', 'delete', org, '--dry-run', '--json'))
  assert.deepEqual(dryRun, { dryRun: true, keys: 0, endpoints: 0 })
  assert.equal(await clientsOf(org), 1)
  const { deleted } = jsonOf(await run('organizations', 'delete', org, '--confirm', org, '--json'))
  assert.deepEqual(deleted, { businesses: 1, events: 2 })
  assert.match(textOf(await run('organizations', 'delete', org, '--confirm', org)), /^Nothing to delete/)
})

test('organizations forget asks for the id before it removes personal data', async () => {
  const org = newOrganization()
  const { business, id } = await platform.clients.create(org, { name: 'Zoe', email: 'zoe@q.example' })
  const command = ['organizations', 'forget', business.id, '-o', org]
  const run = cliOn(database.url)
  assertFailed(await run(...command), 2, /no terminal to confirm in.*--confirm/)
  assertFailed(await run(...command, '--confirm', org), 2, /--confirm is not the id of the business/)
  const refused = await cliOn(database.url, { columns: 80, answer: 'yes' })(...command)
  assert.equal(refused.exitCode, 1)
  assert.equal((await platform.clients.get(org, id)).business.name, 'Zoe')

  const result = await cliOn(database.url, { columns: 80, answer: business.id })(...command)
  assert.match(textOf(result), /^Changed 3 rows\. Beyond the command:\n- Subscribers/)
  const { name, email } = (await platform.clients.get(org, id)).business
  assert.deepEqual([name, email], ['Deleted', null])
})

test('organizations forget removes the signatories of the given proposals, and fails for an unknown business', async () => {
  const org = newOrganization()
  const { business } = await platform.clients.create(org, { name: 'Zoe' })
  const signed = async (): Promise<string> => {
    const { id: proposalId } = await platform.proposals.create(org, {
      title: 'Site',
      total: 1,
      currency: 'EUR',
    })
    await platform.proposals.send(org, { proposalId })
    await platform.proposals.accept(org, { proposalId, signedBy: 'Zoe' })
    return proposalId
  }
  const [one, two, other] = [await signed(), await signed(), await signed()]
  const run = cliOn(database.url)
  const command = ['organizations', 'forget', business.id, '-o', org, '--confirm', business.id, '--json']
  const { changed } = jsonOf(await run(...command, '--proposals', `${one},${two}`))
  assert.deepEqual(changed, {
    businesses: 1,
    proposals: 2,
    events: 2,
    delivery_attempts: 0,
    idempotency_keys: 0,
  })
  const names = await Promise.all(
    [one, two, other].map(async (id) => (await platform.proposals.get(org, id)).signature?.signedBy),
  )
  assert.deepEqual(names, ['Deleted', 'Deleted', 'Zoe'])
  const unknown = ['organizations', 'forget', 'biz_x', '-o', org, '--confirm', 'biz_x']
  assertFailed(await run(...unknown), 1, /no business with this id/)
})
