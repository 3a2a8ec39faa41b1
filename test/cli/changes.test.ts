import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'

// Commands that change endpoints, rate limits and bounds.

let database: TestDatabase
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  run = cliOn(database.url)
})

after(() => database.drop())

const DEVELOPMENT = ['--allow-private-networks', '--allow-http']

async function addEndpoint(org: string, ...flags: readonly string[]): Promise<string> {
  const add = ['endpoints', 'add', '-o', org, '--url', 'http://127.0.0.1:4000/hook', ...DEVELOPMENT]
  return jsonOf(await run(...add, ...flags, '--json')).id
}

describe('endpoints update', () => {
  test('changes the given fields and keeps the others', async () => {
    const id = await addEndpoint('org_1', '--types', 'invoice.paid', '--description', 'Books')
    const update = ['endpoints', 'update', id, '-o', 'org_1']
    const moved = jsonOf(await run(...update, '--url', 'http://127.0.0.1:4001/', ...DEVELOPMENT, '--json'))
    assert.deepEqual(
      [moved.url, moved.types, moved.description],
      ['http://127.0.0.1:4001/', ['invoice.paid'], 'Books'],
    )
    const renamed = jsonOf(await run(...update, '--types', 'all', '--description', 'All', '--json'))
    assert.deepEqual([renamed.url, renamed.types, renamed.description], [moved.url, null, 'All'])
    assert.equal(textOf(await run(...update, '--types', 'lead.created, invoice.paid')), `Updated ${id}\n`)
    const { data } = jsonOf(await run('endpoints', 'list', '-o', 'org_1', '--json'))
    assert.deepEqual(data[0].types, ['lead.created', 'invoice.paid'])
    const { data: entries } = jsonOf(await run('audit', 'list', '-o', 'org_1', '--subject', id, '--json'))
    assert.deepEqual(
      entries.map(({ details }: { details: { fields?: unknown } }) => details.fields),
      [['types'], ['types', 'description'], ['url'], undefined],
    )
  })

  test('fails with one line that names the flag to allow the change', async () => {
    const id = await addEndpoint('org_1')
    const update = ['endpoints', 'update', id, '-o', 'org_1']
    assertFailed(await run(...update), 2, /Pass a change: --url, --types/)
    assertFailed(await run(...update, '--url', 'http://192.0.2.1/'), 2, /; --allow-http allows it/)
    assertFailed(
      await run(...update, '--url', 'https://10.0.0.1/'),
      2,
      /; --allow-private-networks allows it, for development/,
    )
    assertFailed(await run(...update, '--types', 'all,lead.created'), 2, /--types must be .*, or all/)
    assertFailed(
      await run('endpoints', 'update', 'we_other', '-o', 'org_1', '--types', 'all'),
      1,
      /no such record/,
    )
  })
})

test('--refuse-addresses rejects additional addresses, and so does its variable', async () => {
  const add = ['endpoints', 'add', '-o', 'org_1', '--url', 'http://127.0.0.9:4000/', ...DEVELOPMENT]
  assertFailed(await run(...add, '--refuse-addresses', '127.0.0.8/29'), 2, /destination not allowed/)
  const env = {
    DATABASE_URL: database.url,
    BUSINESS_API_SECRET_KEYS: SECRET_KEY,
    BUSINESS_API_REFUSE_ADDRESSES: '127.0.0.9, ::1',
  }
  assertFailed(await cli(add, { env }), 2, /destination not allowed/)
  const unusable = { ...env, BUSINESS_API_REFUSE_ADDRESSES: '127.0.0.9/8' }
  assertFailed(await cli(add, { env: unusable }), 2, /BUSINESS_API_REFUSE_ADDRESSES must be/)
})

describe('rate limits', () => {
  test("limits set and reset change an organization's limit", async () => {
    const set = ['limits', 'set', '-o', 'org_1', '--per-second', '50', '--burst', '500']
    assert.equal(textOf(await run(...set)), 'The limit of org_1 is 50/s, burst 500\n')
    assert.deepEqual(jsonOf(await run('limits', 'reset', '-o', 'org_1', '--actor', 'olga', '--json')), {
      organizationId: 'org_1',
      rateLimit: null,
    })
    const { data } = jsonOf(await run('audit', 'list', '-o', 'org_1', '--subject', 'org_1', '--json'))
    assert.deepEqual(
      data.map(({ actor, details }: { actor: string; details: { rateLimit: unknown } }) => [
        actor,
        details.rateLimit,
      ]),
      [
        ['olga', null],
        ['cli', { perSecond: 50, burst: 500 }],
      ],
    )
  })

  test('keys create can give a key its own limit, which is shown in the list', async () => {
    const create = ['keys', 'create', '-o', 'org_2', '--scopes', 'leads:read', '--json']
    const limited = jsonOf(await run(...create, '--per-second', '0.5', '--burst', '7'))
    await run(...create)
    const table = textOf(await run('keys', 'list', '-o', 'org_2'))
    assert.match(table, new RegExp(`^${limited.id} .* active .* 0\\.5/s, burst 7 +leads:read$`, 'm'))
    assert.match(table, / active .* - +leads:read$/m)
  })

  test('are rejected unless both numbers are given and within bounds', async () => {
    const create = ['keys', 'create', '-o', 'org_2', '--scopes', 'leads:read']
    assertFailed(await run(...create, '--burst', '7'), 2, /Pass both --per-second and --burst/)
    assertFailed(await run(...create, '--burst', 'many'), 2, /--burst must be a number/)
    const set = ['limits', 'set', '-o', 'org_1', '--per-second']
    assertFailed(await run(...set, '50'), 2, /Missing --burst N/)
    assertFailed(await run(...set, '0', '--burst', '5'), 2, /--per-second must be from 0\.001/)
    assertFailed(await run(...set, '1', '--burst', '0.5'), 2, /--burst a whole number from 1/)
  })
})

test('the bounds of an organization can be raised like the host has raised them', async () => {
  const create = ['keys', 'create', '-o', 'org_3', '--scopes', 'leads:read']
  await run(...create)
  assertFailed(
    await run(...create, '--max-api-keys', '1'),
    1,
    /limit of 1 active key: .* or raise --max-api-keys/,
  )
  await addEndpoint('org_3')
  const add = ['endpoints', 'add', '-o', 'org_3', '--url', 'http://127.0.0.1:4000/', ...DEVELOPMENT]
  assertFailed(
    await run(...add, '--max-endpoints', '1'),
    1,
    /limit of 1 endpoint: .* or raise --max-endpoints/,
  )
  const env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: SECRET_KEY }
  assertFailed(
    await cli(add, { env: { ...env, BUSINESS_API_MAX_ENDPOINTS: '1' } }),
    1,
    /or raise --max-endpoints/,
  )
})
