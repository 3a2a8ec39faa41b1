import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { SCOPES } from '../../lib/access/scopes.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, type Result, textOf } from './_cli.ts'
import { writeService } from './_service.ts'
import { newOrganization } from './_settings.ts'

// The API key commands. Each test uses a new organization.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

describe('keys', () => {
  test('create prints id and key as JSON, or only the key for people', async () => {
    const org = newOrganization()
    const args = ['keys', 'create', '--organization', org, '--scopes', 'clients:read,clients:write']
    const created = jsonOf(await run(...args, '--json'))
    assert.deepEqual(Object.keys(created), ['id', 'key'])
    assert.match(created.key, /^bapi_live_[0-9A-Za-z]{49}$/)

    const { exitCode, stdout, stderr } = await run(
      ...args,
      '--name',
      'Website',
      '--service',
      await writeService({ keyPrefix: 'acme' }),
    )
    assert.equal(exitCode, 0)
    assert.match(stdout, /^acme_live_[0-9A-Za-z]{49}\n$/)
    assert.match(stderr, /^Created key_\w+\. The key is shown only once:\n$/)
  })

  test('list and revoke show everything but the key', async () => {
    const org = newOrganization()
    const create = ['keys', 'create', '--organization', org, '--scopes', 'clients:read', '--json']
    const { id, key } = jsonOf(await run(...create, '--name', 'Bleu Nuit', '--expires', '90d'))
    const { id: second } = jsonOf(await run(...create))
    const list = ['keys', 'list', '--organization', org]
    const { data } = jsonOf(await run(...list, '--json'))
    assert.deepEqual(
      data.map((found: { id: string; name: string }) => [found.id, found.name]),
      [
        [second, 'Command line'],
        [id, 'Bleu Nuit'],
      ],
    )
    assert.ok(Math.abs(Date.parse(data[1].expiresAt) - (Date.now() + 90 * 86_400_000)) < 60_000)
    const revoked = jsonOf(await run('keys', 'revoke', second, '--organization', org, '--yes', '--json'))
    assert.ok(revoked.id === second && revoked.revokedAt !== null)
    assert.match(
      textOf(await run('keys', 'revoke', second, '--organization', org, '--yes')),
      /^Revoked key_\w+ \(bapi_live_…\w{4}\)\n$/,
    )

    const table = textOf(await run(...list))
    assert.match(table, /^ID +NAME +KEY +STATE +CREATED +LAST USED +LIMIT +SCOPES\n/)
    assert.match(
      table,
      new RegExp(`^${second} +Command line +bapi_live_….{4} +revoked .* clients:read$`, 'm'),
    )
    assert.match(table, new RegExp(`^${id} +Bleu Nuit +bapi_live_….{4} +until \\d{4}-`, 'm'))
    assert.ok(!(table + JSON.stringify(data)).includes(key))
  })

  test('import accepts a digest and reports what is missing. The key is then listed, and nothing secret is printed', async () => {
    const org = newOrganization()
    const key = `old_${org}_7f3a`
    const digest = digestApiKey(key)
    const line = ['keys', 'import', '--organization', org, '--scopes', 'clients:read', '--name', 'Warehouse']
    const shown = ['--prefix', 'old_', '--last-four', '7f3a', '--digest', digest]
    const none =
      /because the service has no importedKeys, and the API would answer 401: give defineService the pattern/
    assertFailed(await run(...line, ...shown), 1, none)
    const pattern = ['--service', await writeService({ importedKeys: { pattern: /^old_/ } })]
    const wrong = [...line, ...pattern, '--prefix', 'old_', '--last-four', '7f3', '--digest', key]
    assertFailed(
      await run(...wrong),
      2,
      /--digest must be the SHA-256 digest of the whole key.*; --last-four must be four/,
    )
    const imported = jsonOf(await run(...line, ...shown, ...pattern, '--expires', '90d', '--json'))
    assert.deepEqual([imported.name, imported.prefix, imported.lastFour], ['Warehouse', 'old_', '7f3a'])
    assertFailed(
      await run(...line, ...shown, ...pattern),
      1,
      /because a key with its id or digest already exists/,
    )
    const other = ['--last-four', '0000', '--digest', 'b'.repeat(64)]
    assert.match(textOf(await run(...line, ...other, ...pattern)), /^Imported key_\w+ \(…0000\)\n$/)
    const { data } = jsonOf(await run('audit', 'list', '--organization', org, '--json'))
    assert.deepEqual(
      data.map((entry: { action: string; actor: string }) => [entry.action, entry.actor]),
      [
        ['api_key.imported', 'cli'],
        ['api_key.imported', 'cli'],
      ],
    )
    const stored =
      await sql`select digest from business_api.api_keys where organization_id = ${org} order by id`
    assert.deepEqual(
      stored.map((row) => row.digest),
      [digest, 'b'.repeat(64)],
    )
  })

  test('rotate prints the id and key of the successor, and the previous key ends with the overlap', async () => {
    const org = newOrganization()
    const create = ['keys', 'create', '--organization', org, '--scopes', 'leads:read', '--name', 'Form']
    const { id, key } = jsonOf(await run(...create, '--json'))
    const rotate = ['keys', 'rotate', id, '--organization', org]
    const rotated = jsonOf(await run(...rotate, '--overlap', '2h', '--expires', '30d', '--json'))
    assert.deepEqual(Object.keys(rotated), ['id', 'key'])
    assert.ok(rotated.id !== id && rotated.key !== key)
    const { data } = jsonOf(await run('keys', 'list', '--organization', org, '--json'))
    const [successor, previous] = data
    assert.deepEqual([successor.id, successor.name, successor.scopes], [rotated.id, 'Form', ['leads:read']])
    assert.ok(Math.abs(Date.parse(previous.expiresAt) - (Date.now() + 7_200_000)) < 60_000)
    assertFailed(await run(...rotate), 1, /Cannot rotate an API key because the key has been rotated/)
    const again = ['keys', 'rotate', rotated.id, '--organization', org]
    const { stdout, stderr } = await run(
      ...again,
      ...['--overlap', '0', '--yes', '--service', await writeService({ keyPrefix: 'acme' })],
    )
    assert.match(stdout, /^acme_live_[0-9A-Za-z]{49}\n$/)
    assert.match(stderr, /^Created key_\w+; key_\w+ is revoked\. The new key is shown only once:\n$/)
  })

  test('create accepts all for every scope', async () => {
    const org = newOrganization()
    const { id } = jsonOf(await run('keys', 'create', '--organization', org, '--scopes', 'all', '--json'))
    const { data } = jsonOf(await run('keys', 'list', '--organization', org, '--json'))
    assert.deepEqual([data[0].id, data[0].scopes], [id, SCOPES])
  })

  test('results and notes escape invisible characters, both as JSON and for people', async () => {
    const org = newOrganization()
    const name = 'a\u009b31m\u202eb\u007f'
    const { id } = jsonOf(
      await run('keys', 'create', '--organization', org, '--scopes', 'all', '--json', '--name', name),
    )
    for (const flags of [['--json'], []]) {
      const { stdout } = await run('keys', 'list', '--organization', org, ...flags)
      assert.doesNotMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}]/u)
      if (flags.length > 0) assert.equal(JSON.parse(stdout).data[0].name, name)
    }
    const hostile = `${org}\u001b[31m\u009b`
    const limited = await run('limits', 'set', '--organization', hostile, '--per-second', '5', '--burst', '5')
    const renamed = await run('keys', 'rename', `${id}\u009b`, '--organization', org, '--name', 'b')
    for (const { stdout, stderr } of [limited, renamed])
      assert.doesNotMatch(stdout + stderr, /(?!\n)[\p{Cc}\p{Cf}]/u)
    assert.match(limited.stdout, /\\u\{1b\}\[31m/)
  })

  test('create rejects the same inputs as the settings, with one line', async () => {
    const args = ['keys', 'create', '--organization', 'org_1']
    assertFailed(
      await run(...args, '--scopes', 'all,some'),
      2,
      /--scopes must be one or more of clients:read/,
    )
    assertFailed(
      await run(...args, '--scopes', 'leads:read', '--service', await writeService({ keyPrefix: 'No' })),
      2,
      /Cannot use the module of --service: Option 'keyPrefix' must match/,
    )
    assertFailed(
      await run(...args, '--scopes', 'leads:read', '--expires', '2020-01-01'),
      2,
      /--expires must be in the future \(see: business-api-kit keys create --help\)/,
    )
  })
})
