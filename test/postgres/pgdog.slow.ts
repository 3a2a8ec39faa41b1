import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createPlatform } from '../../lib/platform.ts'
import { moveOrganization } from '../../lib/postgres/shards/move.ts'
import { createPostgresStore, migrate, type ShardedStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createDeliverySlots, createWebhookSender } from '../../lib/webhooks.ts'
import { createEmptyDatabase } from '../_database.ts'
import { requestOf } from '../contract/tenant.ts'
import { until } from '../faults/_fixture.ts'
import { type PgDog, startPgDog, WITH_PGDOG } from '../faults/_pgdog.ts'
import { createTestShards, NAMES, organizationOn, type TestShards } from '../store/_shards.ts'

// PgDog with the settings of SHARDS.md: as the pooler of three shards, and as the router of the host's own SQL. The contract
// of stores behind it is in test/store/shards-pooler.slow.ts.

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const SETTINGS = { ...DEVELOPMENT, allowPlaintextSecrets: true }

type Name = (typeof NAMES)[number]

describe('PgDog', WITH_PGDOG, () => {
  let shards: TestShards
  let pgDog: PgDog
  /** A store with each shard behind PgDog. */
  let store: ShardedStore
  /** The host's own pool, to all shards. */
  let own: Sql

  before(async () => {
    shards = await createTestShards()
    await shards.begin()
    for (const sql of shards.sqlsByName)
      await sql`
        create table notes (
          organization_id text not null, id text not null, business_id text, text text, primary key (organization_id, id)
        )`
    pgDog = await startPgDog(shards.databases, 5)
    store = shards.open({ sessions: false }, NAMES.map(pgDog.urlOf))
    own = postgres(pgDog.urlOf('own'), { max: 4, fetch_types: false })
  })

  after(async () => {
    await Promise.all([store.close(), own.end({ timeout: 1 })])
    await pgDog.close()
    await shards.drop()
  })

  const databaseOf = (name: Name): string =>
    new URL(shards.databases[NAMES.indexOf(name)]?.url ?? '').pathname.slice(1)
  const directUrls = (): Map<string, string> =>
    new Map(NAMES.map((name, index) => [name, shards.databases[index]?.url ?? '']))

  /** Returns an organization's notes by shard. */
  async function notesOf(organizationId: string): Promise<Readonly<Record<string, readonly string[]>>> {
    const found: Record<string, readonly string[]> = {}
    for (const [index, name] of NAMES.entries()) {
      const rows = await (shards.sqlsByName[index] as Sql)`
        select text from notes where organization_id = ${organizationId} order by id`
      if (rows.length > 0) found[name] = rows.map(({ text }) => text)
    }
    return found
  }

  test('the loops of all shards deliver through it', async (t) => {
    const arrived: string[] = []
    const server = createServer((request, response) => {
      arrived.push(String(request.url))
      request.resume().on('end', () => response.end())
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const sender = createWebhookSender(DEVELOPMENT)
    const concurrency = createDeliverySlots(16)
    const loops = store.shards.map((shard) => createDeliveryLoop(shard.store, sender, { concurrency }))
    t.after(async () => {
      await Promise.all(loops.map((loop) => loop.stop()))
      await sender.close()
      server.close()
    })
    for (const loop of loops) loop.start()
    const { port } = server.address() as AddressInfo
    const organizations = NAMES.flatMap((name) => [0, 1].map((number) => organizationOn(name, number)))
    for (const organization of organizations) {
      const url = `http://127.0.0.1:${port}/${organization}`
      await createDeveloperSettings(store, SETTINGS).endpoints.register(organization, { url })
    }
    // Another process publishes, so nothing wakes the loops but their polls.
    const publisher = shards.open({ sessions: false }, NAMES.map(pgDog.urlOf))
    t.after(() => publisher.close())
    const publish = createPlatform(publisher).publish
    for (let number = 0; number < 20; number++)
      await Promise.all(
        organizations.map((id) => publish(id, 'project.completed', { projectId: 'p', name: 'Site' })),
      )
    await until('all events arrive', () => arrived.length >= 20 * organizations.length, 20_000)
    assert.deepEqual(arrived.toSorted(), organizations.flatMap((id) => Array(20).fill(`/${id}`)).toSorted())
  })

  test('organizations move through it, and the processes behind it find them', async () => {
    const organization = organizationOn('a', 2)
    const { clients } = createPlatform(store)
    const pooled = new Map(NAMES.map((name) => [name, pgDog.urlOf(name)]))
    for (let number = 0; number < 50; number++) await clients.create(organization, { name: `Nr. ${number}` })
    for (const [urls, to] of [
      [pooled, 'b'],
      [pooled, 'c'],
      [directUrls(), 'a'],
    ] as const) {
      const { copied, deleted } = await moveOrganization(urls, organization, to)
      assert.ok(copied >= 100 && deleted === copied, `${copied} copied, ${deleted} deleted`)
      assert.equal((await clients.list(organization, { limit: 100 })).data.length, 50)
      assert.equal((await store.shardOf(organization)).name, to)
      for (const [index, sql] of shards.sqlsByName.entries()) {
        const [row] = await sql`
          select count(*)::int as count from business_api.events where organization_id = ${organization}`
        assert.equal(row?.count, NAMES[index] === to ? 100 : 0)
      }
    }
  })

  test('migrate runs through the pooler of a shard', async (t) => {
    const databases = await Promise.all(NAMES.map(() => createEmptyDatabase()))
    t.after(() => Promise.all(databases.map((database) => database.drop())))
    const blank = await startPgDog(databases, 5)
    t.after(() => blank.close())
    const { applied, current } = await migrate(blank.urlOf('a'))
    assert.equal(applied.length, current)
    assert.deepEqual(await migrate(blank.urlOf('a')), { applied: [], current })
    await assert.rejects(migrate(blank.urlOf('own')), /cross-shard queries are disabled/)
  })

  test('LISTEN fails, and a session lock stays with a connection of the server', async (t) => {
    const pool = postgres(pgDog.urlOf('a'), { max: 1, onnotice: () => {} })
    t.after(() => pool.end({ timeout: 1 }))
    await assert.rejects(
      pool.listen('channel', () => {}),
      { code: 'CONNECTION_CLOSED' },
    )
    await pool`select pg_advisory_lock(42)`
    await pool.end()
    const [lock] = await (shards.sqlsByName[0] as Sql)`
      select count(*)::int as count from pg_locks where locktype = 'advisory' and objid = 42 and granted`
    assert.equal(lock?.count, 1)
  })

  describe("the host's own SQL", () => {
    test('reaches the shard of its organization: joins, writes and transactions', async () => {
      for (const name of NAMES) {
        for (const number of [3, 4, 5]) {
          const organization = organizationOn(name, number)
          const client = await createPlatform(store).clients.create(organization, { name: `Of ${name}` })
          await own`
            insert into notes (organization_id, id, business_id, text)
            values (${organization}, 'one', ${client.business.id}, 'First')`
          await own.begin(async (tx) => {
            await tx`insert into notes (organization_id, id, text) values (${organization}, 'two', 'Second')`
            await tx`update notes set text = 'Third' where organization_id = ${organization} and id = 'two'`
          })
          const rows = await own`
            select business.name, note.text, current_database() as database
            from business_api.businesses as business
            join notes as note on note.organization_id = business.organization_id and note.business_id = business.id
            where business.organization_id = ${organization}`
          assert.deepEqual([...rows], [{ name: `Of ${name}`, text: 'First', database: databaseOf(name) }])
          const simple = await own.unsafe(`
            with own as (select * from notes where organization_id = '${organization}')
            select count(*)::int as count from own`)
          assert.equal(simple[0]?.count, 2)
          assert.deepEqual(await notesOf(organization), { [name]: ['First', 'Third'] })
          await own`delete from notes where organization_id = ${organization} and id = 'two'`
          assert.deepEqual(await notesOf(organization), { [name]: ['First'] })
        }
      }
    })

    test('reaches an organization that has moved, once PgDog has been reloaded', async (t) => {
      const organization = organizationOn('b', 6)
      await createPlatform(store).clients.create(organization, { name: 'Atlas' })
      const read = async () => {
        const rows = await own`
          select name, current_database() as database from business_api.businesses where organization_id = ${organization}`
        return [...rows]
      }
      const calls = callAllTheTime(t, organizationOn('b', 7))
      assert.deepEqual(await read(), [{ name: 'Atlas', database: databaseOf('b') }])
      for (const to of ['c', 'a', 'b'] as const) {
        await moveOrganization(directUrls(), organization, to)
        // It still asks the former shard, whose rows are gone.
        assert.deepEqual(await read(), [])
        await pgDog.reload()
        for (let time = 0; time < 6; time++)
          assert.deepEqual(await read(), [{ name: 'Atlas', database: databaseOf(to) }])
      }
      assert.ok((await calls.end()) > 100)
    })

    test("doesn't reach a new organization while it moves, and then its shard", async () => {
      const organization = organizationOn('c', 6)
      const write = () =>
        own`insert into notes (organization_id, id, text) values (${organization}, 'x', 'x')`
      const place = async (version: number) => {
        for (const [index, sql] of shards.sqlsByName.entries())
          await sql`
            insert into business_api.shard_places (organization_id, name, version, is_here)
            values (${organization}, 'a', ${version}, ${index === 0 && version === 2})`
      }
      await place(1)
      for (let time = 0; time < 6; time++)
        await assert.rejects(async () => write(), /sharding key lookup failed: no row for value/)
      await place(2)
      await write()
      assert.deepEqual(await notesOf(organization), { a: ['x'] })
    })

    test('reaches the shard of a sharding key, with functions and calls of the platform', async () => {
      for (const name of NAMES) {
        const organization = organizationOn(name, 8)
        const { store: shard } = await store.shardOf(organization)
        const publish = `select business_api.publish_event('${organization}', 'project.completed', '{"projectId": "p", "name": "Site"}')`
        await own.unsafe(`/* pgdog_sharding_key: '${organization}' */ ${publish}`)
        await own.begin(async (tx) => {
          await tx.unsafe(`set local pgdog.sharding_key to '${organization}'`)
          await createPlatform(shard).using(tx).clients.create(organization, { name: 'Atlas' })
          await tx.unsafe(publish)
          await tx`insert into notes (organization_id, id, text) values (${organization}, 'one', 'First')`
        })
        const failed = own.begin(async (tx) => {
          await tx`update notes set text = 'Lost' where organization_id = ${organization}`
          throw new Error('no')
        })
        await assert.rejects(failed, /no/)
        assert.deepEqual(await notesOf(organization), { [name]: ['First'] })
        for (const [index, sql] of shards.sqlsByName.entries()) {
          const [row] = await sql`
            select count(*)::int as count from business_api.events where organization_id = ${organization}`
          assert.equal(row?.count, NAMES[index] === name ? 4 : 0)
        }
      }
    })

    test("isn't for stores, which look up API keys on any shard", async (t) => {
      const whole = createPostgresStore(pgDog.urlOf('own'), { sessions: false })
      t.after(() => whole.close())
      const scopes = ['clients:read'] as const
      const { key } = await createDeveloperSettings(store).apiKeys.create(organizationOn('a', 9), {
        name: 'Key',
        scopes,
      })
      const outcomes = new Set<string>()
      for (let time = 0; time < 6; time++) {
        const { outcome } = await whole.apiKeys.admit(requestOf({ digest: digestApiKey(key) }))
        outcomes.add(outcome)
      }
      assert.deepEqual([...outcomes].toSorted(), ['admitted', 'unauthenticated'])
    })

    test('runs on any shard if only a function is called', async () => {
      const databases = new Set<string>()
      for (let time = 0; time < 6; time++) {
        const [row] = await own`select current_database() as database`
        databases.add(row?.database)
      }
      assert.equal(databases.size, 3)
    })

    test('fails without an organization, and with a list of organizations on two shards', async () => {
      const [a, b] = [organizationOn('a', 0), organizationOn('b', 0)]
      const disabled = /cross-shard queries are disabled/
      await assert.rejects(async () => own`select * from notes`, disabled)
      await assert.rejects(
        async () => own`select * from notes where organization_id in (${a}, ${b})`,
        disabled,
      )
      await assert.rejects(async () => own`create table others (organization_id text)`, disabled)
      const copy = own`copy notes from stdin`.writable()
      await assert.rejects(copy, disabled)
    })

    test('runs on a single shard if it names organizations of two in other ways', async () => {
      const [a, b] = [organizationOn('a', 1), organizationOn('b', 1)]
      for (const organization of [a, b])
        await own`insert into notes (organization_id, id, text) values (${organization}, 'one', 'First')`
      const rows = await own`
        select organization_id as id from notes where organization_id = ${a} union all
        select organization_id as id from notes where organization_id = ${b}`
      assert.deepEqual([...rows], [{ id: a }])
      const insert = (id: string) =>
        `insert into notes (organization_id, id, text) values ('${id}', 'two', 'Second');`
      await own.unsafe(insert(a) + insert(b))
      assert.deepEqual(await notesOf(b), { a: ['Second'], b: ['First'] })
    })

    /** Calls the store and runs own statements until the end, which returns how often. */
    function callAllTheTime(t: TestContext, organization: string): { end(): Promise<number> } {
      let isOver = false
      let count = 0
      t.after(() => {
        isOver = true
      })
      async function call(): Promise<void> {
        const { clients } = createPlatform(store)
        while (!isOver) {
          await clients.create(organization, { name: `Nr. ${count}` })
          const id = String(count++)
          await own`insert into notes (organization_id, id, text) values (${organization}, ${id}, ${id})`
        }
      }
      const calling = call()
      return {
        async end() {
          isOver = true
          await calling
          assert.equal((await notesOf(organization)).b?.length, count)
          return count
        },
      }
    }
  })
})
