import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'

// `endpoints reseal` works on all organizations, so each test starts without endpoints.

const NEW_KEY = randomBytes(32).toString('base64')

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
})

after(() => database.drop())

const withKeys = (keys: string): ReturnType<typeof cliOn> =>
  cliOn(database.url, { env: { BUSINESS_API_SECRET_KEYS: keys } })

async function withoutEndpoints(): Promise<void> {
  await sql`delete from business_api.webhook_endpoints`
}

async function add(
  organization: string,
  ...flags: readonly string[]
): Promise<{ id: string; secret: string }> {
  return addBy(cliOn(database.url), organization, ...flags)
}

async function addBy(
  run: (...args: readonly string[]) => Promise<Result>,
  organization: string,
  ...flags: readonly string[]
): Promise<{ id: string; secret: string }> {
  const development = ['--url', 'http://127.0.0.1:4000/', '--allow-http', '--allow-private-networks']
  return jsonOf(await run('endpoints', 'add', '-o', organization, ...development, '--json', ...flags))
}

/** Opens the stored secret of an endpoint with only the given keys. */
async function openSecret(id: string, ...secretKeys: readonly string[]): Promise<string> {
  const [row] = await sql`
    select organization_id, sealed_secret from business_api.webhook_endpoints where id = ${id}`
  const sealer = createSecretSealer({ secretKeys })
  return sealer.unseal(row?.sealed_secret, { organizationId: row?.organization_id, endpointId: id })
}

describe('endpoints reseal', () => {
  test('reseals the secrets and headers of all organizations with the first key, once', async () => {
    await withoutEndpoints()
    const one = await add('org_one', '--header', 'Authorization: Bearer t0k3n')
    const two = await add('org_two')
    const run = withKeys(`${NEW_KEY},${SECRET_KEY}`)
    assert.equal(textOf(await run('endpoints', 'reseal')), 'Resealed 2 of 2 endpoints\n')
    for (const { id, secret } of [one, two]) assert.equal(await openSecret(id, NEW_KEY), secret)
    assert.deepEqual(jsonOf(await run('endpoints', 'reseal', '--json')), {
      examined: 2,
      resealed: 0,
      unopened: 0,
      changed: 0,
    })
  })

  test('continues after the first part of 500', async () => {
    await withoutEndpoints()
    const { id } = await add('org_many')
    await sql`
      insert into business_api.webhook_endpoints
      select (jsonb_populate_record(endpoint, jsonb_build_object('organization_id', 'org_' || number))).*
      from business_api.webhook_endpoints endpoint, generate_series(1, 700) number where endpoint.id = ${id}`
    // The copies can't be opened because they are sealed for other organizations.
    const run = withKeys(`${NEW_KEY},${SECRET_KEY}`)
    const result = await run('endpoints', 'reseal')
    assert.equal(result.exitCode, 1)
    assert.equal(result.stdout, 'Resealed 1 of 701 endpoints\n')
    assert.match(result.stderr, /Cannot open the credentials of 700 endpoints/)
  })

  test("fails for a secret that can't be opened with any key, and doesn't change it", async () => {
    await withoutEndpoints()
    const lost = await add('org_lost')
    const kept = await addBy(withKeys(NEW_KEY), 'org_kept')
    const result = await withKeys(NEW_KEY)('endpoints', 'reseal')
    assert.equal(result.stdout, 'Resealed 0 of 2 endpoints\n')
    assert.match(result.stderr, /Cannot open the credentials of 1 endpoint: set all sealing keys/)
    assert.equal(await openSecret(lost.id, SECRET_KEY), lost.secret)
    assert.equal(await openSecret(kept.id, NEW_KEY), kept.secret)
  })

  test('seals plain text secrets if the flag is passed', async () => {
    await withoutEndpoints()
    const env = { DATABASE_URL: database.url }
    const { id, secret } = await addBy(
      (...args) => cli(args, { env }),
      'org_plain',
      '--allow-plaintext-secrets',
    )
    const run = cliOn(database.url)
    const refused = await run('endpoints', 'reseal')
    assert.equal(refused.exitCode, 1)
    assert.match(refused.stderr, /pass --allow-plaintext-secrets/)
    assert.equal(
      textOf(await run('endpoints', 'reseal', '--allow-plaintext-secrets')),
      'Resealed 1 of 1 endpoint\n',
    )
    assert.equal(await openSecret(id, SECRET_KEY), secret)
  })

  test('requires a key', async () => {
    const env = { DATABASE_URL: database.url }
    assertFailed(await cli(['endpoints', 'reseal'], { env }), 2, /Set BUSINESS_API_SECRET_KEYS/)
  })
})
