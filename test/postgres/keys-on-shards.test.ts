import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import type { Sql } from 'postgres'
import { digestApiKey, generateApiKey, readApiKey } from '../../lib/access/api-keys.ts'
import { slotOf } from '../../lib/access/slots.ts'
import { type BusinessApi, createBusinessApi } from '../../lib/index.ts'
import { moveOrganization } from '../../lib/postgres/shards/move.ts'
import { createPostgresStore, createShardedStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { makeOlderKey } from '../_older-key.ts'
import { named } from '../_service.ts'
import { until } from '../faults/_fixture.ts'
import { createTestShards, NAMES, organizationOn, type TestShards } from '../store/_shards.ts'

type Name = (typeof NAMES)[number]

let shards: TestShards

before(async () => {
  shards = await createTestShards()
  await shards.begin()
})

after(() => shards.drop())

const AWAY = 'postgres://127.0.0.1:1/none'
const SERVICE = { importedKeys: { pattern: /^(old|bapi)_/ } }
const urlOf = (name: Name): string => shards.databases[NAMES.indexOf(name)]?.url ?? ''
const move = (organizationId: string, to: Name) =>
  moveOrganization(new Map(NAMES.map((name) => [name, urlOf(name)])), organizationId, to)

/** Starts another process. @param lookUp runs before each key lookup, and gets the shard and what's running */
function startProcess(
  t: TestContext,
  urls: Partial<Record<Name, string>> = {},
  lookUp = async (_name: Name, find: () => ReturnType<PostgresStore['shardKeys']>) => find(),
) {
  const asked: Name[] = []
  const stores = NAMES.map((name) => {
    const store = createPostgresStore(urls[name] ?? urlOf(name))
    const shardKeys: PostgresStore['shardKeys'] = (digests, slots) => {
      asked.push(name)
      return lookUp(name, () => store.shardKeys(digests, slots))
    }
    return [name, { ...store, shardKeys }] as const
  })
  const store = createShardedStore({ shards: Object.fromEntries(stores) })
  t.after(() => store.close({ timeoutMs: 0 }))
  return {
    store,
    settings: createDeveloperSettings(named(store, SERVICE)),
    api: createBusinessApi(store, { logger: false, deadlineMs: 9000 }),
    /** Makes each shard's first call, which takes longer. A lookup ends when the first shard has found the key. */
    enterAll: () => Promise.all(NAMES.map((name) => store.shardOf(organizationOn(name)))),
    /** The shards that were asked for a key since the last call, sorted by name. */
    asked: () => asked.splice(0).toSorted(),
  }
}

async function list(api: BusinessApi, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` }
  return (await api(new Request('http://localhost/api/v1/clients', { headers }))).status
}

const NEW = { name: 'Key', scopes: ['clients:read'] } as const

/** Adds a key to an organization from before keys had a slot. */
async function addOlderKey(organizationId: string, key = makeOlderKey()): Promise<string> {
  const sql = shards.sqlOf(organizationId)
  await sql`
    insert into business_api.api_keys (organization_id, id, digest, name, scopes, prefix, last_four, created_at)
    values (${organizationId}, ${`key_${key.slice(-20)}`}, ${digestApiKey(key)}, 'Key', '{clients:read}', 'bapi_live_', ${key.slice(-4)}, now())`
  return key
}

/** Tells a shard that an organization isn't there. */
async function place(name: Name, organizationId: string, to: Name, version: number): Promise<void> {
  const sql = shards.sqlsByName[NAMES.indexOf(name)]
  assert.ok(sql)
  await sql`
    insert into business_api.shard_places (organization_id, name, version, is_here)
    values (${organizationId}, ${to}, ${version}, false)`
}

test('new keys and successors have the slot of their organization, and no displayed part of them does', async (t) => {
  const { settings } = startProcess(t)
  const organization = organizationOn('b', 1)
  const created = await settings.apiKeys.create(organization, NEW)
  const successor = await settings.apiKeys.rotate(organization, created.id)
  for (const { key, prefix, lastFour } of [created, successor]) {
    assert.equal(readApiKey(key), slotOf(organization))
    assert.deepEqual([prefix, lastFour], ['bapi_live_', key.slice(-4)])
  }
})

test('a key with a slot only queries the slot’s shard, an older key queries all', async (t) => {
  const organization = organizationOn('b', 2)
  const { settings } = startProcess(t)
  const { key } = await settings.apiKeys.create(organization, NEW)
  const older = await addOlderKey(organization)
  const { api, asked, enterAll } = startProcess(t)
  await enterAll()
  assert.equal(await list(api, key), 200)
  assert.deepEqual(asked(), ['b'])
  assert.equal(await list(api, older), 200)
  assert.deepEqual(asked(), ['a', 'b', 'c'])
  assert.equal(await list(api, key), 200)
  assert.deepEqual(asked(), [])
})

test('while a shard is down, keys of others are found or known not to exist, but an older key may be on it', async (t) => {
  const organization = organizationOn('b', 3)
  const { settings } = startProcess(t)
  const { key, id } = await settings.apiKeys.create(organization, NEW)
  const older = await addOlderKey(organization)
  const { api } = startProcess(t, { c: AWAY })
  assert.deepEqual([await list(api, key), await list(api, older)], [200, 200])
  await settings.apiKeys.revoke(organization, id)
  assert.equal(await list(api, key), 401)
  assert.equal(await list(api, generateApiKey('bapi', slotOf(organization))), 401)
  assert.equal(await list(api, generateApiKey('bapi', slotOf(organizationOn('c')))), 503)
  assert.equal(await list(api, makeOlderKey()), 503)
})

test("a shard that doesn't respond doesn't delay finding an older key on another one", async (t) => {
  const older = await addOlderKey(organizationOn('b', 4))
  const { api } = startProcess(t, {}, async (name, find) => (name === 'c' ? new Promise(() => {}) : find()))
  assert.equal(await list(api, older), 200)
})

test('the key of an organization that has moved is found by processes with any map', async (t) => {
  const organization = organizationOn('a', 1)
  const [before, after] = [startProcess(t), startProcess(t)]
  for (const each of [before, after]) await each.store.shardOf(organization)
  const { key } = await before.settings.apiKeys.create(organization, NEW)
  await move(organization, 'b')
  await move(organization, 'c')
  const { key: newer } = await startProcess(t).settings.apiKeys.create(organization, NEW)
  for (const each of [key, newer]) {
    const started = startProcess(t)
    await started.enterAll()
    assert.equal(await list(started.api, each), 200)
    assert.deepEqual(started.asked(), ['a', 'c'])
  }
  before.asked()
  assert.equal(await list(before.api, newer), 200)
  assert.deepEqual(before.asked(), ['a', 'a', 'c'])
  assert.equal(await list(after.api, key), 200)
  // Another organization of the slot may be there too. Its keys don't query the third shard.
  after.asked()
  assert.equal(await list(after.api, generateApiKey('bapi', slotOf(organization))), 401)
  assert.deepEqual(after.asked(), ['a', 'c'])
})

test("a key isn't called unknown while it's between two shards, whenever the process was started", async (t) => {
  const organization = organizationOn('a', 2)
  const running = startProcess(t)
  const { key } = await running.settings.apiKeys.create(organization, NEW)
  const older = await addOlderKey(organization)
  await move(organization, 'b')
  await running.store.shardOf(organization)
  for (const name of ['c', 'b'] as const) await place(name, organization, 'c', 3)
  for (const each of [key, older])
    for (const { api } of [running, startProcess(t)]) assert.equal(await list(api, each), 503)
  await move(organization, 'c')
  for (const each of [key, older])
    for (const { api } of [running, startProcess(t)]) assert.equal(await list(api, each), 200)
})

test('a key whose organization moves during the lookup is found', async (t) => {
  const organization = organizationOn('a', 3)
  const older = await addOlderKey(organization)
  let tell = (): void => {}
  const asked = new Promise<void>((resolve) => {
    tell = resolve
  })
  let moves: Promise<unknown> = asked
  const { api } = startProcess(t, {}, async (name, find) => {
    if (name === 'a') await asked.then(() => moves)
    const found = await find()
    // The second pass asks again.
    if (name === 'b' && moves === asked) {
      moves = move(organization, 'b')
      tell()
    }
    return found
  })
  assert.equal(await list(api, older), 200)
  await moves
})

test("a shard doesn't return keys of an organization that has left, even if it still has rows", async (t) => {
  const organization = organizationOn('a', 4)
  const key = await addOlderKey(organization)
  const { store } = startProcess(t)
  const [a] = store.shards
  assert.ok(a)
  assert.deepEqual(
    [...(await a.store.apiKeys.identify([digestApiKey(key)]))],
    [[digestApiKey(key), organization]],
  )
  await place('a', organization, 'b', 2)
  assert.equal((await a.store.apiKeys.identify([digestApiKey(key)])).size, 0)
})

test('an imported key is found, whatever slot it seems to have', async (t) => {
  const organization = organizationOn('b', 5)
  const { settings, store } = startProcess(t)
  const key = generateApiKey('bapi', slotOf(organizationOn('c')))
  const given = { digest: digestApiKey(key), prefix: 'bapi_live_', lastFour: key.slice(-4), ...NEW }
  await settings.apiKeys.import(organization, given)
  assert.equal(await list(createBusinessApi(named(store, SERVICE), { logger: false }), key), 200)
})

test('an import finds the digest of a revoked key on another shard, but not in rows that an organization left behind', async (t) => {
  const [source, other] = [organizationOn('a', 5), organizationOn('b', 6)]
  const { settings } = startProcess(t)
  const { key, id } = await settings.apiKeys.create(source, NEW)
  const given = { digest: digestApiKey(key), prefix: '', lastFour: key.slice(-4), ...NEW }
  await settings.apiKeys.revoke(source, id)
  await assert.rejects(settings.apiKeys.import(other, given), { code: 'already_exists' })
  await place('a', source, 'c', 2)
  await settings.apiKeys.import(other, given)
})

test('of two processes that import a key at the same time into organizations on two shards, one is rejected', async (t) => {
  const organizations = [organizationOn('a', 6), organizationOn('b', 7)]
  let asked = 0
  const processes = organizations.map(() =>
    startProcess(t, {}, async (_, find) => {
      const found = await find()
      asked++
      // Both processes have asked all shards before either inserts the key, if nothing keeps them apart.
      for (let wait = 0; wait < 50 && asked < 2 * NAMES.length; wait++)
        await new Promise((resolve) => setTimeout(resolve, 10))
      return found
    }),
  )
  await Promise.all(processes.map(({ store }, index) => store.shardOf(organizations[index] ?? '')))
  for (let round = 0; round < 4; round++) {
    asked = 0
    const key = generateApiKey('bapi', slotOf(`org_${round}`))
    const given = { digest: digestApiKey(key), prefix: 'old_', lastFour: key.slice(-4), ...NEW }
    const results = await Promise.allSettled(
      processes.map(({ settings }, index) => settings.apiKeys.import(organizations[index] ?? '', given)),
    )
    const codes = results.map((result) => result.status === 'fulfilled' || Object(result.reason).code)
    assert.deepEqual(codes.toSorted(), ['already_exists', true])
  }
})

test('an import waits for an import in another process only as long as a statement may take', async (t) => {
  const { store, settings } = startProcess(t)
  const key = generateApiKey('bapi', slotOf(organizationOn('c')))
  const given = { digest: digestApiKey(key), prefix: 'old_', lastFour: key.slice(-4), ...NEW }
  const { name, store: locking } = await store.shardOf(given.digest)
  const release = await locking.hold(given.digest)
  const waiting = settings.apiKeys.import(organizationOn('a', 7), given)
  await assert.rejects(waiting, { code: 'store_unavailable', message: /^Shard '[abc]': .* within 5000 ms$/ })
  // The server doesn't notice a closed connection while the session waits for a lock.
  const sql = shards.sqlsByName[NAMES.indexOf(name as Name)] as Sql
  const waitingSessions = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`
  await until('the session has ended', async () => (await waitingSessions()).length === 0, 3000)
  release()
  assert.equal((await settings.apiKeys.import(organizationOn('a', 7), given)).lastFour, key.slice(-4))
})
