import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createApiClient } from '../../lib/client.ts'
import { BusinessApiError, createBusinessApi, STORE_UNAVAILABLE, WRONG_SHARD } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createTransactionDatabase } from '../../lib/postgres/connection/transaction.ts'
import { DELETED_TABLES } from '../../lib/postgres/organizations.ts'
import { addShard } from '../../lib/postgres/shards/first-start.ts'
import { type MoveOptions, moveOrganization } from '../../lib/postgres/shards/move.ts'
import { awaitOthers } from '../../lib/postgres/shards/other-transactions.ts'
import { createPostgresStore, createShardedStore, type ShardedStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { finishDeliveries } from '../_deliveries.ts'
import { untilWaiting } from '../_waiting.ts'
import { requestOf } from '../contract/tenant.ts'
import { POOLERS } from '../faults/_poolers.ts'
import { createTestShards, NAMES, organizationOn, type TestShards } from '../store/_shards.ts'

type Name = (typeof NAMES)[number]

let shards: TestShards
let store: ShardedStore
/** A store with the same shards that hasn't been called since the moves. */
let others: ShardedStore

before(async () => {
  shards = await createTestShards()
  store = shards.open()
  others = shards.open()
})

after(async () => {
  await Promise.all([store.close(), others.close()])
  await shards.drop()
})

const SETTINGS = { allowPlaintextSecrets: true, allowPrivateNetworks: true, allowHttp: true }
const urls = (): Map<string, string> =>
  new Map(NAMES.map((name, index) => [name, shards.databases[index]?.url ?? '']))
const move = (organizationId: string, to: string, options?: MoveOptions) =>
  moveOrganization(urls(), organizationId, to, options)

function sqlOf(name: Name) {
  const sql = shards.sqlsByName[NAMES.indexOf(name)]
  assert.ok(sql)
  return sql
}

function isCode(code: string, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof BusinessApiError, String(error))
    assert.equal(error.code, code)
    assert.match(error.message, text)
    return true
  }
}

/** Tables about the whole database. Every shard has its own. */
const LEFT = ['event_days', 'event_limits', 'event_types', 'installation', 'purge_progress', 'shard_places']

async function tablesOf(name: Name): Promise<readonly string[]> {
  const tables = await sqlOf(name)<{ name: string }[]>`
    select relname as name from pg_attribute join pg_class on pg_class.oid = attrelid
    where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not relispartition
      and attname = 'organization_id' order by 1`
  return tables.map((table) => table.name).filter((table) => !LEFT.includes(table))
}

/** Returns an organization's rows on a shard by table, without the transactions that wrote them. */
async function rowsOf(name: Name, organizationId: string): Promise<Readonly<Record<string, unknown[]>>> {
  const rows: Record<string, unknown[]> = {}
  for (const table of await tablesOf(name)) {
    const [found] = await sqlOf(name)`
      select coalesce(jsonb_agg(to_jsonb(r) - 'changed_xid' order by r::text), '[]')::text as rows
      from ${sqlOf(name)(`business_api.${table}`)} as r where organization_id = ${organizationId}`
    const list = JSON.parse(found?.rows)
    if (list.length > 0) rows[table] = list
  }
  return rows
}

const ODD = 'A\tb\\n\n"ü" \\.'

/** Adds a row of every kind to an organization. */
async function fill(organizationId: string, name: Name): Promise<{ readonly key: string }> {
  const platform = createPlatform(store)
  const { apiKeys, endpoints, rateLimits } = createDeveloperSettings(store, SETTINGS)
  const { key } = await apiKeys.create(organizationId, { name: 'Key', scopes: ['clients:read'] })
  await rateLimits.set(organizationId, { perSecond: 100, burst: 1000 })
  await endpoints.register(organizationId, { url: 'http://127.0.0.1:9999/' })
  const { business } = await platform.clients.create(organizationId, { name: ODD, idempotencyKey: 'one' })
  await platform.leads.create(organizationId, { businessId: business.id })
  await platform.proposals.create(organizationId, { title: 'Site', total: 1, currency: 'EUR' })
  await platform.projects.create(organizationId, { name: 'Site', billingType: 'fixed', value: 1 })
  const { id: invoiceId } = await platform.invoices.create(organizationId, {
    currency: 'EUR',
    total: '1',
    dueDate: '2099-01-01T00:00:00Z',
  })
  await platform.invoices.issue(organizationId, { invoiceId })
  await platform.invoices.recordPayment(organizationId, { invoiceId, amount: '1' })
  const data = { projectId: 'p', name: 'Site' }
  await platform.publish(organizationId, 'project.completed', data, { id: 'evt_of-the-host' })
  const sql = sqlOf(name)
  await sql`insert into business_api.rate_buckets values (${organizationId}, 'b', 1)`
  await sql`insert into business_api.endpoint_rates (organization_id, endpoint_id) values (${organizationId}, 'we_1')`
  await sql`
    insert into business_api.endpoint_activity (organization_id, hour, endpoint_id, slot, counts)
    values (${organizationId}, date_trunc('hour', now()), 'we_1', 1, '{1}')`
  await sql`
    insert into business_api.api_requests
      (organization_id, id, day, at, key_id, method, route, path, status, duration_ms, is_replay)
    values (${organizationId}, 'req_1', 1, now(), 'key_1', 'GET', '/clients', '/clients', 200, 1, false)`
  await finishDeliveries(sql, 'delivered', sql`organization_id = ${organizationId} and type = 'lead.created'`)
  await sql`
    insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
    select organization_id, id, 1, now(), 1, 'x' from business_api.open_deliveries where organization_id = ${organizationId}`
  return { key }
}

test('every table with organizations is either moved or listed as left behind', async () => {
  const [list] = await sqlOf('a')<{ tables: string }[]>`
    select to_json(business_api.organization_tables(${`{${DELETED_TABLES.join()}}`}::text::text[]))::text as tables`
  const moved = (JSON.parse(list?.tables ?? '[]') as string[][]).map(([table]) => table)
  assert.deepEqual(moved.toSorted(), await tablesOf('a'))
})

test("an organization with a row in every table moves and is found by processes that don't know about it", async () => {
  const organization = organizationOn('a', 1)
  const { key } = await fill(organization, 'a')
  await createPlatform(others).clients.list(organization)
  const before = await rowsOf('a', organization)
  assert.deepEqual(Object.keys(before).toSorted(), await tablesOf('a'))

  const report = await move(organization, 'b')
  const rows = Object.values(before).flat().length
  assert.deepEqual(report, { from: 'a', to: 'b', copied: rows, deleted: rows, untold: [] })
  assert.deepEqual(await rowsOf('b', organization), before)
  assert.deepEqual(await rowsOf('a', organization), {})

  for (const process of [store, others]) {
    const { data } = await createPlatform(process).clients.list(organization)
    assert.equal(data.length, 1)
    const admission = await process.apiKeys.admit(requestOf({ digest: digestApiKey(key) }))
    assert.equal(admission.outcome, 'admitted')
    assert.equal((await process.shardOf(organization)).name, 'b')
  }
  const { id } = await createPlatform(store).clients.create(organization, {
    name: ODD,
    idempotencyKey: 'one',
  })
  assert.ok(before.businesses?.some((row) => Object(row).client_id === id))
})

test('a process with an outdated map reads and writes in the right place on its next call, whatever it is', async () => {
  const organization = organizationOn('b', 1)
  const { key } = await fill(organization, 'b')
  const digest = digestApiKey(key)
  const calls: readonly ((process: ShardedStore) => Promise<unknown>)[] = [
    (process) => createPlatform(process).clients.create(organization, { name: 'New' }),
    (process) => process.apiKeys.admit(requestOf({ digest }, { organizationHint: organization })),
    (process) =>
      process.clients.admitAndList(requestOf({ digest }, { organizationHint: organization }), { limit: 9 }),
    (process) =>
      createPlatform(process).publish(organization, 'project.completed', { projectId: 'p', name: 'S' }),
    (process) => createDeveloperSettings(process, SETTINGS).endpoints.list(organization),
  ]
  const stale = calls.map(() => shards.open())
  await Promise.all(stale.map((process) => process.shardOf(organization)))
  await move(organization, 'c')
  for (const [index, process] of stale.entries()) {
    const call = calls[index] ?? assert.fail()
    assert.equal((await process.shardOf(organization)).name, 'b')
    assert.ok(await call(process))
    assert.equal((await process.shardOf(organization)).name, 'c')
    await process.close()
  }
  assert.deepEqual(await rowsOf('b', organization), {})
})

test('the store of a single shard, and a host’s transaction on it, reject an organization that has moved', async () => {
  const organization = organizationOn('a', 2)
  const process = shards.open()
  const { store: own } = await process.shardOf(organization)
  const plain = createPostgresStore(shards.databases[0]?.url ?? '')
  await move(organization, 'c')
  const text = /Organization .* is not in this database: it belongs to shard c; nothing was written/
  const create = (on: Parameters<typeof createPlatform>[0]) =>
    createPlatform(on).clients.create(organization, { name: 'Wrong' })
  await assert.rejects(create(plain), isCode(WRONG_SHARD, text))
  const inTransaction = sqlOf('a').begin((tx) =>
    createPlatform(own).using(tx).clients.create(organization, { name: 'Wrong' }),
  )
  await assert.rejects(inTransaction, isCode(WRONG_SHARD, text))
  const publish = sqlOf(
    'a',
  )`select business_api.publish_event(${organization}, 'project.completed', '{}'::jsonb)`
  await assert.rejects(async () => publish, /it belongs to shard c/)
  await Promise.all([process.close(), plain.close()])
  assert.deepEqual(await rowsOf('a', organization), {})
})

test('an organization moves again, and back, and calls find it', async () => {
  const organization = organizationOn('c', 1)
  await fill(organization, 'c')
  const before = await rowsOf('c', organization)
  for (const to of ['a', 'b', 'c', 'a'] as const) {
    await move(organization, to)
    assert.deepEqual(await rowsOf(to, organization), before)
    for (const name of NAMES) if (name !== to) assert.deepEqual(await rowsOf(name, organization), {})
    assert.equal((await createPlatform(others).clients.list(organization)).data.length, 1)
  }
  assert.deepEqual(await move(organization, 'a'), { from: 'a', to: 'a', copied: 0, deleted: 0, untold: [] })
})

test('the sync token of a moved organization starts over: a client gets all records once more, and then changes', async () => {
  const organization = organizationOn('c', 3)
  const { key } = await fill(organization, 'c')
  const { create } = createPlatform(store).clients
  for (const name of ['Second', 'Third']) await create(organization, { name })
  const api = createBusinessApi(store, { logger: false })
  const client = createApiClient({
    url: 'http://localhost',
    key,
    fetch: (url, init) => api(new Request(url, init)),
  })
  let since: Date | string = new Date(0)
  /** Reads all or some pages of a list of changes. */
  const sync = async (pages = Infinity): Promise<readonly string[]> => {
    const read: string[] = []
    for await (const page of client.clients.list({ pageSize: 2, updatedSince: since }).pages()) {
      read.push(...page.data.map(({ id }) => id))
      since = page.syncToken ?? assert.fail('no token')
      if (--pages === 0) break
    }
    return read
  }
  /** Syncs until nothing comes: records come again while an older transaction is open in any database of the server. */
  const settle = async (): Promise<void> => {
    const giveUpAt = performance.now() + 30_000
    while ((await sync()).length > 0) assert.ok(performance.now() < giveUpAt, 'records come again and again')
  }
  const all = [...(await sync())]
  assert.equal(new Set(all).size, 3)
  await settle()
  for (const to of ['a', 'c'] as const) {
    await move(organization, to)
    assert.deepEqual((await sync()).toSorted(), all.toSorted())
    await settle()
    const { id } = await create(organization, { name: `Moved to ${to}` })
    assert.deepEqual(await sync(), [id])
    await create(organization, { name: 'Next' }).then((next) => all.push(id, next.id))
    await sync()
  }
  since = new Date(0)
  const first = await sync(1)
  await move(organization, 'b')
  assert.deepEqual([...new Set([...first, ...(await sync())])].toSorted(), all.toSorted())
})

for (const [pooler, { needs, start }] of Object.entries(POOLERS))
  test(`an organization moves through ${pooler} in transaction mode`, needs, async (t) => {
    const organization = organizationOn('a', 11)
    await fill(organization, 'a')
    const before = await rowsOf('a', organization)
    const running = await start(shards.databases, 3)
    t.after(() => running.close())
    const pooled = new Map(NAMES.map((name, index) => [name, running.urls[index] ?? '']))
    for (const [from, to] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      await moveOrganization(pooled, organization, to)
      assert.deepEqual(await rowsOf(to, organization), before)
      assert.deepEqual(await rowsOf(from, organization), {})
    }
    assert.equal((await createPlatform(others).clients.list(organization)).data.length, 1)
    await createDeveloperSettings(store, SETTINGS).organizations.delete(organization)
  })

test('a table of any size moves, including rows that exactly fill the stream buffers', async () => {
  const organization = organizationOn('a', 5)
  await createPlatform(store).clients.list(organization)
  const sql = sqlOf('a')
  for (const [number, length] of [16_000, 16_384, 65_536, 100_000].entries())
    for (let count = 0; count < 60; count++)
      await sql`
        insert into business_api.businesses (organization_id, id, name)
        values (${organization}, ${`biz_${number}_${count}`}, repeat('x', ${length - 30 + count}::int))`
  assert.equal((await move(organization, 'b')).copied, 240)
})

test('a transaction of another database of the server that stays open does not delay a move', async (t) => {
  const elsewhere = await createTestDatabase()
  t.after(() => elsewhere.drop())
  const organization = organizationOn('b', 6)
  await fill(organization, 'b')
  let isOver = false
  const work = async () => {
    while (!isOver) await sqlOf('b')`select pg_sleep(0.05)`
  }
  const working = Promise.all(Array.from({ length: 4 }, work))
  await elsewhere.sql().begin(async (sql) => {
    await sql`select pg_current_xact_id()`
    await move(organization, 'c', { holdMs: 2000 }).finally(() => {
      isOver = true
    })
  })
  await working
  assert.ok((await rowsOf('c', organization)).businesses)
})

test("a move waits for another user's statement that waits for a lock and has written nothing", async (t) => {
  const sql = sqlOf('a')
  const role = `mover_${process.pid}`
  await sql`create role ${sql(role)}`
  t.after(() => sql`drop role ${sql(role)}`)
  const [holder, waiter] = [await sql.reserve(), await sql.reserve()]
  await holder`select pg_advisory_lock(4242)`
  const waiting = waiter`select pg_advisory_lock(4242)`.execute()
  await untilWaiting(sql)
  const rejected = sql.begin(async (tx) => {
    await tx`set local role ${tx(role)}`
    await awaitOthers(
      createTransactionDatabase(tx, async (error) => error),
      200,
    )
  })
  await assert.rejects(rejected, isCode(STORE_UNAVAILABLE, /because transactions stay open \(session \d+\)/))
  await holder`select pg_advisory_unlock(4242)`
  await waiting
  await waiter`select pg_advisory_unlock(4242)`
  for (const session of [holder, waiter]) session.release()
  await sql.begin(async (tx) => {
    await tx`set local role ${tx(role)}`
    await awaitOthers(
      createTransactionDatabase(tx, async (error) => error),
      2000,
    )
  })
})

test('a shard whose port closes each connection is down', { timeout: 60_000 }, async (t) => {
  await shards.begin()
  const closing = createServer((socket) => void socket.on('error', () => {}).end())
  await once(closing.listen(0, '127.0.0.1'), 'listening')
  t.after(() => void closing.close())
  const away = new URL(shards.databases[2]?.url ?? '')
  away.port = String((closing.address() as AddressInfo).port)
  const organization = organizationOn('a', 7070)
  const begunAt = performance.now()
  const moved = await moveOrganization(new Map([...urls(), ['c', away.href]]), organization, 'b')
  assert.deepEqual(moved.untold, ['c'])
  assert.ok(performance.now() - begunAt < 20_000)
})

/** Limits new sessions on all shards during a test. */
async function limitSessions(
  t: { after(end: () => unknown): void },
  settings: readonly string[],
): Promise<void> {
  const limit = (value: string) =>
    Promise.all(
      NAMES.map((name) =>
        sqlOf(name).unsafe(`
          do $$ declare setting text; begin
            for setting in select name from pg_settings where name = any ('{${settings.join()}}') loop
              execute format('alter database %I set %I to ${value}', current_database(), setting);
            end loop;
          end $$`),
      ),
    )
  await limit('1000')
  t.after(() => limit('default'))
}

test('a copy may take longer than a statement of the role', { timeout: 60_000 }, async (t) => {
  const organization = organizationOn('a', 12)
  await fill(organization, 'a')
  await limitSessions(t, ['statement_timeout'])
  let waits = 1
  const onStep: MoveOptions['onStep'] = ({ step }) => {
    // Blocks the process, which sends the target nothing meanwhile.
    if (step === 'copy' && waits-- > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)
  }
  assert.ok((await move(organization, 'b', { onStep })).copied > 20)
})

test("a copy waits for another call's locks for longer than the role's timeouts", {
  timeout: 60_000,
}, async (t) => {
  const organization = organizationOn('a', 14)
  await fill(organization, 'a')
  const moving = await sqlOf('b').begin(async (tx) => {
    await tx`select business_api.lock_move(${organization})`
    await limitSessions(t, [
      'statement_timeout',
      'idle_in_transaction_session_timeout',
      'transaction_timeout',
    ])
    const begun = move(organization, 'b')
    await Promise.race([begun, new Promise((resolve) => setTimeout(resolve, 2000))])
    return { begun }
  })
  assert.ok((await moving.begun).copied > 20)
})

/** Adds rows that fill any buffer between two servers. */
async function fillBuffers(organization: string, rows: number): Promise<void> {
  await createPlatform(store).clients.list(organization)
  await sqlOf('a')`
    insert into business_api.businesses (organization_id, id, name)
    select ${organization}, 'biz_' || number, repeat('x', 100000) from generate_series(1, ${rows}::int) as number`
}

test('a copy that the target cannot start fails the move', { timeout: 20_000 }, async (t) => {
  const organization = organizationOn('a', 15)
  await fillBuffers(organization, 300)
  const rename = (from: string, to: string) =>
    sqlOf('b').unsafe(`alter table business_api.businesses rename column ${from} to ${to}`)
  await rename('city', 'town')
  t.after(() => rename('town', 'city').catch(() => {}))
  await assert.rejects(move(organization, 'b'), { code: '42703' })
  assert.equal((await createPlatform(others).businesses.list(organization)).data.length, 50)
  await rename('town', 'city')
  assert.equal((await move(organization, 'b')).copied, 300)
  await createDeveloperSettings(store, SETTINGS).organizations.delete(organization)
})

test('a copy that loses its connection to the target fails the move', { timeout: 20_000 }, async () => {
  const organization = organizationOn('a', 16)
  await fillBuffers(organization, 300)
  let killed: Promise<readonly unknown[]> | undefined
  const onStep: MoveOptions['onStep'] = ({ step }) => {
    if (step === 'copy')
      killed ??= sqlOf('b')`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and query like 'copy business_api.%'`.execute()
  }
  await assert.rejects(move(organization, 'b', { onStep }), (error) =>
    ['CONNECTION_CLOSED', 'EPIPE', 'ECONNRESET'].includes(Object(error).code),
  )
  assert.equal((await killed)?.length, 1)
  assert.equal((await createPlatform(others).businesses.list(organization)).data.length, 50)
  assert.equal((await move(organization, 'b')).copied, 300)
  await createDeveloperSettings(store, SETTINGS).organizations.delete(organization)
})

for (const [size, rows] of [
  ['a few rows, which were all sent', 3],
  ['many rows, which are still being read', 300],
] as const)
  test(`a copy that the target rejects fails the move: ${size}`, { timeout: 60_000 }, async (t) => {
    const organization = organizationOn('a', 13)
    await fillBuffers(organization, rows)
    const constrain = (change: string) => sqlOf('b').unsafe(`alter table business_api.businesses ${change}`)
    await constrain(`add constraint no_two check (id <> 'biz_2')`)
    t.after(() => constrain('drop constraint no_two'))
    await assert.rejects(move(organization, 'b'), { code: '23514' })
    assert.equal((await createPlatform(others).businesses.list(organization)).data.length, Math.min(rows, 50))
    await createDeveloperSettings(store, SETTINGS).organizations.delete(organization)
  })

test('calls are unavailable between two shards; a transaction that stays open reverts the move', async () => {
  const organization = organizationOn('a', 3)
  await fill(organization, 'a')
  const seen: string[] = []
  const open = sqlOf('a').begin('isolation level repeatable read', async (tx) => {
    await tx`select 1`
    const moving = move(organization, 'b', { holdMs: 300, onStep: ({ step }) => seen.push(step) })
    while (!seen.includes('hold')) await new Promise((resolve) => setTimeout(resolve, 5))
    await new Promise((resolve) => setTimeout(resolve, 50))
    const call = createPlatform(others).clients.create(organization, { name: 'Later' })
    await assert.rejects(call, isCode(STORE_UNAVAILABLE, /is moving to shard 'b'/))
    await assert.rejects(moving, isCode(STORE_UNAVAILABLE, /because transactions stay open \(session \d+\)/))
  })
  await open
  assert.equal((await others.shardOf(organization)).name, 'b')
  assert.ok(await createPlatform(others).clients.create(organization, { name: 'Later' }))
  assert.deepEqual(await rowsOf('b', organization), {})
  await move(organization, 'b')
  assert.equal((await createPlatform(others).clients.list(organization)).data.length, 2)
})

test('a claim skips an organization that has left, and a late result is lost', async () => {
  const organization = organizationOn('b', 2)
  await fill(organization, 'b')
  const [, b, c] = store.shards
  assert.ok(b && c)
  const request = {
    token: 'tok_1',
    isRepeat: false,
    limit: 100,
    maxBytes: 1_000_000,
    scanLimit: 100,
    cursor: null,
    leaseMs: 1,
    maxAttempts: 5,
    capacity: { endpoint: 100, organization: 100, endpoints: {}, organizations: {} },
  }
  const { deliveries } = await b.store.deliveries.claim(request)
  const own = deliveries.filter((delivery) => delivery.organizationId === organization)
  assert.ok(own.length > 0)
  await sqlOf('b')`
    insert into business_api.shard_places (organization_id, name, version, is_here) values (${organization}, 'c', 1, false)`
  await sqlOf('b')`
    update business_api.invoices set status = 'issued', amount_paid = 0, due_date = now() - interval '1 day'
    where organization_id = ${organization}`
  const event = { id: '', type: 'invoice.overdue', body: '{}' } as const
  await b.store.invoices.markOverdue({ organizationId: null, asOf: null, limit: 100, event })
  const [invoice] = await sqlOf(
    'b',
  )`select status from business_api.invoices where organization_id = ${organization}`
  assert.equal(invoice?.status, 'issued')
  const results = own.map((delivery) => ({
    organizationId: organization,
    deliveryId: delivery.id,
    token: 'tok_1',
    outcome: 'delivered' as const,
    startedAgoMs: 1,
    endedAgoMs: 1,
    durationMs: 1,
    status: 200,
    bodyExcerpt: '',
  }))
  const report = await b.store.deliveries.writeResults(results as never, { failures: 50, failingMs: 1000 })
  assert.equal(report.lost.length, own.length)
  const second = await b.store.deliveries.claim({ ...request, token: 'tok_2' })
  assert.deepEqual(
    second.deliveries.filter((delivery) => delivery.organizationId === organization),
    [],
  )
  await move(organization, 'c')
  const [row] = await sqlOf('c')`
    select count(*)::int as count from business_api.open_deliveries where organization_id = ${organization}`
  assert.equal(row?.count, own.length)
})

test('a shard restored to a time before a move is closed for the organization, or rejected if it has lost it', async () => {
  const organization = organizationOn('a', 4)
  await fill(organization, 'a')
  const rows = await rowsOf('a', organization)
  await move(organization, 'b')
  const forget = (name: Name) =>
    sqlOf(name)`delete from business_api.shard_places where organization_id = ${organization}`
  await forget('a')
  const restored = shards.open()
  assert.equal((await createPlatform(restored).clients.list(organization)).data.length, 1)
  assert.equal((await restored.shardOf(organization)).name, 'b')
  await restored.close()
  const [entry] = await sqlOf(
    'a',
  )`select is_here, name from business_api.shard_places where organization_id = ${organization}`
  assert.deepEqual({ ...entry }, { is_here: false, name: 'b' })
  assert.ok(rows.businesses)

  await forget('b')
  const lost = shards.open()
  await assert.rejects(
    createPlatform(lost).clients.list(organization),
    isCode(WRONG_SHARD, /shard 'b' was restored to a moment before the organization moved to it/),
  )
  await lost.close()
})

/** Tells a shard where an organization is, like a step of a move. */
async function tell(name: Name, organizationId: string, to: Name, version: number): Promise<void> {
  await sqlOf(name)`
    insert into business_api.shard_places (organization_id, name, version, is_here)
    values (${organizationId}, ${to}, ${version}, false)`
}

test('a reverted move that was interrupted before its shard was opened again is completed by the same command', async () => {
  const organization = organizationOn('a', 6)
  await fill(organization, 'a')
  await tell('b', organization, 'b', 1)
  await tell('a', organization, 'b', 1)
  await tell('b', organization, 'a', 2)
  await assert.rejects(createPlatform(shards.open()).clients.list(organization), { code: STORE_UNAVAILABLE })
  await move(organization, 'a')
  assert.equal((await createPlatform(store).clients.list(organization)).data.length, 1)
})

test("a shard restored to a time during a move to it isn't opened without the rows", async () => {
  const organization = organizationOn('a', 7)
  await fill(organization, 'a')
  await move(organization, 'b')
  await sqlOf(
    'b',
  )`delete from business_api.shard_places where organization_id = ${organization} and version = 2`
  await move(organization, 'b')
  await assert.rejects(createPlatform(store).clients.list(organization), { code: STORE_UNAVAILABLE })
})

test("rows of an organization that is moving away aren't deleted by the end of an earlier move", async () => {
  const organization = organizationOn('a', 8)
  await fill(organization, 'a')
  const before = await rowsOf('a', organization)
  await tell('a', organization, 'b', 1)
  await sqlOf('a')`
    select business_api.delete_left_part(${organization}, 1000, null, ${`{${DELETED_TABLES.join()}}`}::text::text[])`
  assert.deepEqual(await rowsOf('a', organization), before)
  await move(organization, 'a')
})

test("a shard that a process knows from before a move to it hasn't lost the organization", async () => {
  const organization = organizationOn('a', 9)
  await fill(organization, 'a')
  let isOver = (): void => {}
  const over = new Promise<void>((resolve) => {
    isOver = resolve
  })
  const stores = NAMES.map((name, index) => {
    const own = createPostgresStore(shards.databases[index]?.url ?? '')
    const shardPlace: typeof own.shardPlace = async (...args) => {
      if (name !== 'c') await over
      return own.shardPlace(...args)
    }
    return [name, { ...own, shardPlace }] as const
  })
  const started = createShardedStore({ shards: Object.fromEntries(stores) })
  const located = started.shardOf(organization)
  await new Promise((resolve) => setTimeout(resolve, 200))
  await move(organization, 'c')
  isOver()
  await located
  assert.equal((await createPlatform(started).clients.list(organization)).data.length, 1)
  await started.close()
})

test("a map that is newer than the choice of a shard doesn't fail the call", async (t) => {
  const organization = organizationOn('a', 17)
  await fill(organization, 'a')
  const away = new Map([...urls(), ['c', 'postgres://127.0.0.1:1/none']])
  assert.deepEqual((await moveOrganization(away, organization, 'b')).untold, ['c'])
  const stores = NAMES.map((name, index) => {
    const own = createPostgresStore(shards.databases[index]?.url ?? '')
    // Shard c, whose map is old, responds first.
    const shardPlace: typeof own.shardPlace = async (...args) => {
      if (name !== 'c') await new Promise((resolve) => setTimeout(resolve, 1200))
      return own.shardPlace(...args)
    }
    return [name, { ...own, shardPlace }] as const
  })
  const started = createShardedStore({ shards: Object.fromEntries(stores) })
  t.after(() => started.close())
  assert.equal((await createPlatform(started).clients.list(organization)).data.length, 1)
})

test('a host that only makes calls in its own transactions finds an organization after one rejected call', async (t) => {
  const organization = organizationOn('a', 18)
  await fill(organization, 'a')
  const started = shards.open()
  t.after(() => started.close())
  const create = async () => {
    const { name, store: own } = await started.shardOf(organization)
    const call = sqlOf(name as Name).begin((tx) =>
      createPlatform(own).using(tx).clients.create(organization, { name: 'Host' }),
    )
    return call.then(() => name)
  }
  assert.equal(await create(), 'a')
  await move(organization, 'b')
  await assert.rejects(create(), isCode(WRONG_SHARD, /it belongs to shard b; nothing was written/))
  assert.equal(await create(), 'b')
})

test("rows left behind don't cause notices, resealed secrets or request log entries", async () => {
  const organization = organizationOn('a', 10)
  const { key } = await fill(organization, 'a')
  const sql = sqlOf('a')
  await sql`update business_api.api_keys set expires_at = now() + interval '1 hour' where organization_id = ${organization}`
  await sql`
    update business_api.webhook_endpoints
    set previous_sealed_secret = sealed_secret, previous_secret_expires_at = now() + interval '1 minute'
    where organization_id = ${organization}`
  await tell('a', organization, 'b', 2)
  const before = await rowsOf('a', organization)
  const [a] = store.shards
  assert.ok(a)
  const request = { token: 'tok', secretsWithinMs: 3_600_000, apiKeysWithinMs: 86_400_000, limit: 1000 }
  const notices = await a.store.notices.claimExpiring(request)
  const sealed = await a.store.endpoints.listSealed(1000, null)
  await a.store.requests.write([
    {
      id: 'req_left',
      at: new Date().toISOString(),
      keyDigest: digestApiKey(key),
      organizationId: null,
      method: 'GET',
      route: '/clients',
      path: '/clients',
      status: 200,
      durationMs: 1,
      error: null,
      isReplay: false,
    },
  ])
  assert.ok([...notices, ...sealed].every(({ organizationId }) => organizationId !== organization))
  assert.deepEqual(await rowsOf('a', organization), before)
})

test('an impossible move says why and changes nothing', async () => {
  const organization = organizationOn('b', 3)
  await fill(organization, 'b')
  await assert.rejects(move(organization, 'z'), isCode(WRONG_SHARD, /there is no shard 'z'/))
  const onStep = () => assert.fail('closes the organization')
  await assert.rejects(move(organization, 'a', { isNew: true, onStep }), isCode(WRONG_SHARD, /it is not new/))
  await sqlOf('b')`insert into business_api.settings_turns values (${organizationOn('b', 5)}, 1)`
  await assert.rejects(
    move(organizationOn('b', 5), 'a', { isNew: true }),
    isCode(WRONG_SHARD, /it is not new/),
  )
  const away = new Map([...urls(), ['a', 'postgres://127.0.0.1:1/none']])
  await assert.rejects(
    moveOrganization(away, organization, 'a'),
    isCode(STORE_UNAVAILABLE, /Shard 'a' is down, and org_\d+ cannot be moved without it/),
  )
  assert.ok(await createPlatform(others).clients.create(organization, { name: 'Here' }))
  assert.equal((await move(organizationOn('b', 4), 'a', { isNew: true })).copied, 0)
  assert.equal((await others.shardOf(organizationOn('b', 4))).name, 'b')
  await createPlatform(others).clients.create(organizationOn('b', 4), { name: 'New' })
  assert.ok((await rowsOf('a', organizationOn('b', 4))).businesses)
})

test('two shards can be added at once, and a process without one that has organizations is rejected', async (t) => {
  const added = new Map(
    await Promise.all(['d', 'e'].map(async (name) => [name, await createTestDatabase()] as const)),
  )
  const all = new Map([...urls(), ...[...added].map(([name, { url }]) => [name, url] as const)])
  const open = (without = '') =>
    new Map(
      [...all].filter(([name]) => name !== without).map(([name, url]) => [name, createPostgresStore(url)]),
    )
  const shardsOf = (opened: ReturnType<typeof open>) =>
    createShardedStore({ shards: Object.fromEntries(opened) }).shards
  const [stores, without] = [open(), open('e')]
  t.after(async () => {
    await Promise.all([...stores.values(), ...without.values()].map((each) => each.close()))
    await Promise.all([...added.values()].map((database) => database.drop()))
  })
  await Promise.all([...added.keys()].map((name) => addShard(shardsOf(stores), name)))
  const organization = organizationOn('c', 9)
  await createPlatform(store).clients.create(organization, { name: 'Atlas' })
  for (const name of added.keys()) await moveOrganization(all, organization, name)
  const whole = createShardedStore({ shards: Object.fromEntries(stores) })
  assert.equal((await createPlatform(whole).clients.list(organization)).data.length, 1)
  const lacking = createShardedStore({ shards: Object.fromEntries(without) })
  const { clients } = createPlatform(lacking)
  await assert.rejects(
    clients.list(organizationOn('a')),
    isCode(WRONG_SHARD, /give every shard of the installation/),
  )
  await assert.rejects(
    addShard(shardsOf(without), 'd'),
    isCode(WRONG_SHARD, /give every shard of the installation/),
  )
})
