import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { startPrimary, startReplica } from './_replica.ts'

// The unlogged tables of the request log: by day, on a standby, and after a crash.

const DAY_MS = 86_400_000
const IDS = ['req_1', 'req_2']

async function fill(store: PostgresStore): Promise<void> {
  const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', {
    name: 'k',
    scopes: ['clients:read'],
  })
  await store.requests.write(
    IDS.map((id, day) => ({
      ...{
        id,
        at: new Date(Date.now() - day * DAY_MS).toISOString(),
        keyDigest: digestApiKey(key),
        organizationId: 'org_1',
      },
      ...{ method: 'GET', route: '/a', path: '/a', status: 200, durationMs: 1, error: null, isReplay: false },
    })),
  )
}

test("a purge only empties the table for tomorrow and doesn't wait for a reader", async (t) => {
  const database = await createTestDatabase()
  const store = createPostgresStore(database.url)
  t.after(async () => {
    await store.close()
    await database.drop()
  })
  const sql = database.sql({ max: 2 })
  await fill(store)
  const list = async () => (await store.requests.list('org_1', {}, 10, null)).data.map(({ id }) => id)
  const purge = () => store.deliveries.purge({ eventsAfterMs: DAY_MS, limit: 1 })
  await sql`
    insert into business_api.api_requests
    select organization_id, 'req_old', day, at - interval '9 days', key_id, method, route, path, status, duration_ms, error, is_replay
    from business_api.api_requests where id = 'req_1'`
  assert.equal(
    await store.requests.get('org_1', 'req_old'),
    null,
    'of a table that no purge has emptied in time',
  )
  await purge()
  assert.deepEqual(await list(), IDS)
  // Pretend that yesterday's request is eight days old and today's is seven days old.
  const today = Math.floor(Date.now() / DAY_MS)
  for (const [id, day] of [
    ['req_2', today + 1],
    ['req_1', today + 2],
  ] as const)
    await sql`update business_api.api_requests set day = ${day % 9} where id = ${id}`
  await sql.begin(async (tx) => {
    await tx`select from business_api.api_requests limit 1`
    await purge()
    assert.deepEqual(await list(), IDS)
  })
  await purge()
  assert.deepEqual(await list(), ['req_1'])
})

test('a standby has no request log and the calls say that the server is read-only; after a crash the log is empty', async (t) => {
  const primary = await startPrimary()
  t.after(() => primary.remove())
  const sql = postgres(primary.url, { max: 1, onnotice: () => {} })
  await migrate(sql)
  const store = createPostgresStore(primary.url)
  await fill(store)
  const replica = await startReplica(primary)
  t.after(() => replica.remove())
  const standby = createPostgresStore(`${replica.url}?target_session_attrs=any`)
  const { requests, audit } = createDeveloperSettings(standby)
  const refused = { code: 'store_unavailable', message: /the server is read-only: is it a standby\?/ }
  await assert.rejects(requests.list('org_1'), refused)
  await assert.rejects(requests.get('org_1', 'req_1'), refused)
  assert.equal((await audit.list('org_1')).data.length, 1)
  await standby.close()

  await primary.stopServer('immediate')
  await primary.startServer()
  const calls = createDeveloperSettings(store)
  assert.deepEqual(await calls.requests.list('org_1'), { data: [], next: null }, 'empty after a crash')
  await fill(store)
  assert.equal((await calls.requests.list('org_1')).data.length, 2)
  await Promise.all([store.close(), sql.end()])
})

test('a list for a period long ago reads no more rows than a list of the latest requests', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  await sql`
    insert into business_api.api_requests
    select 'org_1', 'req_' || second, 0, now() - second * interval '1 second', 'key_1', 'GET', '/a', '/a', 200, 1, null, false
    from generate_series(1, 50000) as second`
  const pagesOf = async (filter: object): Promise<number> => {
    const plan = await sql.unsafe(
      `explain (analyze, buffers, format json) select business_api.list_api_requests('org_1', $1::text::jsonb, 50, null)`,
      [JSON.stringify(filter)],
    )
    return plan[0]?.['QUERY PLAN'][0].Plan['Shared Hit Blocks']
  }
  const ago = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString()
  await pagesOf({})
  const newest = await pagesOf({})
  for (const period of [{ until: ago(10) }, { since: ago(11), until: ago(10) }, { since: ago(12) }]) {
    const pages = await pagesOf(period)
    assert.ok(pages < newest + 100, `${pages} pages for ${JSON.stringify(period)}, ${newest} for the newest`)
  }
})
