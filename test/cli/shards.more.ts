import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import { defineCommand } from '../../lib/cli/command.ts'
import { text } from '../../lib/cli/flags.ts'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../_database.ts'
import { createTestShards, NAMES, organizationOn, type TestShards } from '../store/_shards.ts'
import {
  assertFailed,
  cli,
  jsonOf,
  PASSWORD,
  type Result,
  SECRET_KEY,
  type Surroundings,
  textOf,
} from './_cli.ts'

let shards: TestShards

before(async () => {
  shards = await createTestShards()
})

after(() => shards.drop())

const GONE = `postgres://somebody:${PASSWORD}@127.0.0.1:1/nowhere`

/** Runs the command line on shards. @param changes other connection strings by name */
function onShards(
  changes: Readonly<Record<string, string>> = {},
  surroundings: Surroundings = {},
): (...args: readonly string[]) => Promise<Result> {
  const urls = Object.fromEntries(NAMES.map((name, index) => [name, shards.databases[index]?.url ?? '']))
  return onUrls({ ...urls, ...changes }, surroundings)
}

function onUrls(
  urls: Readonly<Record<string, string>>,
  { env, ...surroundings }: Surroundings = {},
): (...args: readonly string[]) => Promise<Result> {
  const DATABASE_URLS = Object.entries(urls)
    .map(([name, url]) => `${name}=${url}`)
    .join(',')
  const own = { DATABASE_URLS, BUSINESS_API_SECRET_KEYS: SECRET_KEY, ...env }
  return (...args) => cli(args, { ...surroundings, env: own })
}

async function countKeys(organization: string, name: (typeof NAMES)[number]): Promise<number> {
  const [row] = await shards.sqlOf(organizationOn(name))`
    select count(*)::int as count from business_api.api_keys where organization_id = ${organization}`
  return row?.count
}

test('commands about an organization use its shard', async () => {
  for (const name of NAMES) {
    const organization = organizationOn(name, 1)
    const run = onShards()
    textOf(await run('keys', 'create', '-o', organization, '--scopes', 'clients:read'))
    assert.deepEqual(
      await Promise.all(NAMES.map((each) => countKeys(organization, each))),
      NAMES.map((each) => Number(each === name)),
    )
    assert.equal(jsonOf(await run('keys', 'list', '-o', organization, '--json')).data.length, 1)
  }
})

test("export and import use the organization's shard", async () => {
  const organization = organizationOn('b', 2)
  const env = {
    DATABASE_URLS: NAMES.map((name, index) => `${name}=${shards.databases[index]?.url}`).join(','),
  }
  const record = { id: 'biz_1', name: 'Atlas', category: null, city: null, email: null, phone: null }
  const input = `${JSON.stringify({ kind: 'business', record })}\n`
  textOf(await cli(['import', '-', '-o', organization], { env, input }))
  const exported = textOf(await cli(['export', '-o', organization], { env }))
  assert.match(exported, /"name":"Atlas"/)
})

test('organizations delete uses the shard of its argument, even if DATABASE_URL is set', async () => {
  const [a] = shards.databases
  const run = onShards({}, { env: { DATABASE_URL: a?.url ?? '' } })
  for (const name of NAMES) {
    const organization = organizationOn(name, 3)
    textOf(await run('keys', 'create', '-o', organization, '--scopes', 'clients:read'))
    const deletion = ['organizations', 'delete', organization, '--confirm', organization, '--json']
    assert.equal(jsonOf(await run(...deletion)).deleted.api_keys, 1)
    assert.equal(await countKeys(organization, name), 0)
  }
})

test("with DATABASE_URLS, a command that has no organization and can't run on shards has no database", async () => {
  const [a] = shards.databases
  const seen: string[] = []
  const lost = defineCommand({
    name: 'lost',
    summary: '',
    examples: {},
    flags: { organization: text('O', '') },
    run: async (_, session) => void seen.push(session.databaseUrl()),
  })
  const urls = NAMES.map((name, index) => `${name}=${shards.databases[index]?.url}`)
  const env = { DATABASE_URL: a?.url ?? '', DATABASE_URLS: urls.join(',') }
  const output = { isTTY: false, columns: undefined, write: () => true }
  const terminal = {
    env,
    stdin: { isTTY: false, stream: () => Readable.from([]), readLine: async () => null },
    stdout: output,
    stderr: output,
    signals: new EventEmitter(),
    exit: () => assert.fail(),
  }
  await assert.rejects(lost.run([], terminal), /^UsageError: Cannot tell the shard: pass --database-url/)
  await lost.run(['--organization', organizationOn('a')], terminal)
  assert.deepEqual(seen, [a?.url])
})

test('deliveries cancel --pending cancels on every shard and asks for each by name', async () => {
  for (const name of NAMES) {
    const of = ['-o', organizationOn(name, 5)]
    const allowed = ['--allow-http', '--allow-private-networks']
    textOf(await onShards()('endpoints', 'add', ...of, '--url', 'http://127.0.0.1:65533/', ...allowed))
    textOf(await onShards()('trigger', 'client.created', ...of, '--yes'))
  }
  const env = { DATABASE_URL: shards.databases[0]?.url ?? '' }
  const refused = await onShards({}, { env, columns: 80, answer: 'n' })('deliveries', 'cancel', '--pending')
  for (const name of NAMES) assert.match(refused.stderr, new RegExp(`Shard ${name}: Cancels 1 pending`))
  const { shards: cancelled } = jsonOf(
    await onShards({}, { env })('deliveries', 'cancel', '--pending', '--yes', '--json'),
  )
  const own = { cancelled: 1, sending: 0 }
  assert.deepEqual(cancelled, { a: own, b: own, c: own })
})

test('status, doctor and migrate run on every shard', async () => {
  const run = onShards()
  const status = jsonOf(await run('status', '--json'))
  assert.deepEqual(Object.keys(status.shards), ['a', 'b', 'c'])
  assert.equal(status.shards.b.schema.pending.length, 0)
  const doctor = jsonOf(await run('doctor', '--json'))
  for (const name of NAMES) assert.ok(doctor.shards[name].checks.length > 5)
  const text = textOf(await run('migrate'))
  assert.match(text, /^Shard a\nNothing to do.*\n\nShard b\nNothing to do.*\n\nShard c\nNothing to do.*\n$/)
})

test('migrate creates the schemas of new shards', async (t) => {
  const databases: TestDatabase[] = [await createEmptyDatabase(), await createEmptyDatabase()]
  t.after(() => Promise.all(databases.map((database) => database.drop())))
  const run = onUrls({ x: databases[0]?.url ?? '', y: databases[1]?.url ?? '' })
  const { shards: migrated } = jsonOf(await run('migrate', '--json'))
  assert.deepEqual([migrated.x.applied.length > 0, migrated.y.applied.length > 0], [true, true])
})

test("an unavailable shard is named, doesn't stop the others, and makes the exit code 1", async () => {
  await onShards()('keys', 'list', '-o', organizationOn('a'))
  const run = onShards({ c: GONE })
  const status = await run('status', '--json')
  assertFailed(status, 1, /shard c: Cannot .*127\.0\.0\.1:1/)
  const { shards: states } = JSON.parse(status.stdout)
  assert.equal(states.a.schema.pending.length, 0)
  assert.match(states.c.error, /refused/)
  assertFailed(await run('purge', '--older-than', '30d', '--yes'), 1, /^business-api-kit: shard c: /)
  textOf(await run('keys', 'list', '-o', organizationOn('a')))
  assertFailed(await run('keys', 'list', '-o', organizationOn('c')), 1, /Shard 'c': /)
})

test("no command about an organization works if the databases have each other's names", async () => {
  await onShards()('keys', 'list', '-o', organizationOn('a'))
  const [a, b] = shards.databases
  const run = onShards({ a: b?.url ?? '', b: a?.url ?? '' })
  assertFailed(
    await run('keys', 'create', '-o', organizationOn('a'), '--scopes', 'clients:read'),
    1,
    /shard 'a' because its database is shard 'b'/,
  )
})

test('doctor fails if a database has the name of another shard, and warns if it is no shard yet', async (t) => {
  await onShards()('keys', 'list', '-o', organizationOn('a'))
  const [a, b] = shards.databases
  const spare = await createTestDatabase()
  t.after(() => spare.drop())
  const checksOf = async (changes: Readonly<Record<string, string>>) => {
    const { shards: states } = JSON.parse((await onShards(changes)('doctor', '--json')).stdout)
    return (name: string) => {
      const { level, message } = states[name].checks.find((check: { name: string }) => check.name === 'shard')
      return `${level}: ${message}`
    }
  }
  const swapped = await checksOf({ a: b?.url ?? '', b: a?.url ?? '' })
  assert.equal(swapped('a'), 'fail: the database is the shard b')
  assert.equal(swapped('c'), 'ok: every organization is on its shard')
  assert.equal((await checksOf({ d: spare.url }))('d'), 'warn: the database is not a shard yet')
})

test('a command about shards says which database was never migrated, and which variable is missing', async (t) => {
  await onShards()('keys', 'list', '-o', organizationOn('a'))
  const empty = await createEmptyDatabase()
  t.after(() => empty.drop())
  for (const command of [['list'], ['add', 'd']])
    assertFailed(
      await onShards({ d: empty.url })('shards', ...command),
      1,
      /Shard 'd': Cannot use this database because it was never migrated/,
    )
  for (const command of [
    ['shards', 'assign', 'org_1', '--to', 'b'],
    ['organizations', 'move', 'org_1', '--to', 'b'],
  ])
    assertFailed(
      await cli(command, { env: { DATABASE_URL: empty.url } }),
      2,
      /Set DATABASE_URLS to the shards/,
    )
})

test('purge asks for each shard, and a missing --yes is a usage error', async () => {
  assertFailed(await onShards()('purge', '--older-than', '30d'), 2, /shard a: Nothing was done .*; shard b: /)
  const { shards: purged } = jsonOf(await onShards()('purge', '--older-than', '30d', '--yes', '--json'))
  assert.deepEqual(purged.b, { events: 0, idempotencyKeys: 0 })
})

test('deliver --once delivers the events of every shard', async () => {
  const run = onShards()
  for (const name of NAMES) {
    const organization = organizationOn(name, 4)
    const url = 'http://127.0.0.1:65533/'
    const add = [
      'endpoints',
      'add',
      '-o',
      organization,
      '--url',
      url,
      '--allow-http',
      '--allow-private-networks',
    ]
    textOf(await run(...add))
    textOf(await run('trigger', 'client.created', '-o', organization, '--yes'))
  }
  const allowed = ['--allow-http', '--allow-private-networks']
  assert.deepEqual(jsonOf(await run('deliver', '--once', '--json', ...allowed)), {
    delivered: 0,
    retried: 3,
    failed: 0,
  })
  const partial = await onShards({ b: GONE })('deliver', '--once', ...allowed)
  assert.equal(partial.exitCode, 1)
  assert.match(partial.stderr, /Shard 'b': Cannot /)
})

test('--database-url selects one database, even with DATABASE_URLS', async () => {
  const status = jsonOf(
    await onShards({ c: GONE })('status', '--json', '--database-url', shards.databases[0]?.url ?? ''),
  )
  assert.equal(status.schema.pending.length, 0)
})

test('a script is for one database', async () => {
  assertFailed(await onShards()('migrate', '--print'), 2, /with --database-url/)
})

test('an invalid DATABASE_URLS is rejected without showing any part of it', async () => {
  const url = `postgres://somebody:${PASSWORD}@localhost/app`
  for (const text of [
    url,
    `A=${url}`,
    `a=${url},a=${url}`,
    `a=${PASSWORD}`,
    `a=${url},b=mysql://${PASSWORD}`,
  ]) {
    assertFailed(await cli(['status'], { env: { DATABASE_URLS: text } }), 2, /DATABASE_URLS/)
  }
  const hosts = `a=postgres://one:1,two:2/app?target_session_attrs=primary, b=${url}`
  assertFailed(await cli(['grants'], { env: { DATABASE_URLS: hosts } }), 2, /Pass at least one of/)
})

test('a shard can be added, gets new organizations, and organizations can be moved there and back', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  await onShards()('keys', 'list', '-o', organizationOn('a'))
  const run = onShards({ d: database.url })
  assertFailed(
    await run('shards', 'assign', 'org_new', '--to', 'd'),
    1,
    /because shard 'd' has not been added yet/,
  )
  assertFailed(await onShards()('shards', 'add', 'd'), 1, /'d' because it has no connection string/)
  assert.match(textOf(await run('shards', 'list')), /^d {2}the database is not this shard: see doctor$/m)
  for (const _ of ['new', 'again']) textOf(await run('shards', 'add', 'd'))
  const known = organizationOn('a', 7)
  textOf(await run('keys', 'create', '-o', known, '--scopes', 'clients:read'))
  assertFailed(await run('shards', 'assign', known, '--to', 'd'), 1, /it is not new: see organizations move/)
  assert.match(
    textOf(await run('organizations', 'move', known, '--to', 'd')),
    /is on shard d: copied \d+ rows/,
  )
  textOf(await run('shards', 'assign', 'org_new', '--to', 'd'))
  assert.equal(jsonOf(await run('keys', 'list', '-o', known, '--json')).data.length, 1)
  textOf(await run('keys', 'create', '-o', 'org_new', '--scopes', 'clients:read'))
  const { shards: listed } = jsonOf(await run('shards', 'list', '--json'))
  const slots = { moved: 0, moving: 0 }
  assert.deepEqual(listed, [
    { name: 'a', isAdded: true, slots: 342, ...slots },
    { name: 'b', isAdded: true, slots: 341, ...slots },
    { name: 'c', isAdded: true, slots: 341, ...slots },
    { name: 'd', isAdded: true, slots: 0, moved: 2, moving: 0 },
  ])
  const sql = shards.sqlOf(organizationOn('a'))
  const checkOf = async () => {
    const { shards: states } = JSON.parse((await run('doctor', '--json')).stdout)
    return states.a.checks.find(({ name }: { name: string }) => name === 'shard')
  }
  assert.deepEqual((await checkOf()).level, 'ok')
  await sql`insert into business_api.api_keys select ${known}, 'key_1', 'd', 'n', '{}', 'p', 'f', null, null, now()`
  await sql`insert into business_api.api_keys select ${organizationOn('b', 9)}, 'key_2', 'e', 'n', '{}', 'p', 'f', null, null, now()`
  await sql`insert into business_api.shard_places values ('org_going', 'b', 1, null, false)`
  const { level, message } = await checkOf()
  assert.equal(level, 'fail')
  assert.match(message, /: 1 between two shards, 1 with rows left behind, 1 of other shards$/)
  await sql`delete from business_api.api_keys where id in ('key_1', 'key_2')`
  assert.match(textOf(await run('shards', 'list')), /^d {2}0 slots, 2 organizations moved here$/m)
  assertFailed(
    await onShards({ d: GONE })('organizations', 'move', organizationOn('b', 8), '--to', 'd'),
    1,
    /^business-api-kit: Shard 'd' is down, and org_\d+ cannot be moved without it$/m,
  )
  assertFailed(await onShards()('doctor'), 1, /^business-api-kit: shard a: The check shard has failed/)
  assertFailed(
    await onShards()('keys', 'list', '-o', known),
    1,
    /with the shards 'a', 'b', 'c', 'd': give every shard/,
  )
  for (const organization of [known, 'org_new']) {
    const back = jsonOf(await run('organizations', 'move', organization, '--to', 'b', '--json'))
    assert.deepEqual(
      [back.from, back.to, back.copied > 0, back.copied === back.deleted],
      ['d', 'b', true, true],
    )
  }
  assert.equal(jsonOf(await run('keys', 'list', '-o', 'org_new', '--json')).data.length, 1)
  await run('organizations', 'move', known, '--to', 'a')
  const [a] = jsonOf(await run('shards', 'list', '--json')).shards
  assert.deepEqual(a, { name: 'a', isAdded: true, slots: 342, ...slots })
  assertFailed(await cli(['shards', 'list'], { env: {} }), 2, /Set DATABASE_URLS to the shards/)
})
