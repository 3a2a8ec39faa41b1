// Settings of a whole server: prepared transactions, and a limit on the duration of each transaction.

import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql } from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { STORE_UNAVAILABLE } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { rehearse } from '../../lib/postgres/rehearsal.ts'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { type MoveOptions, moveOrganization } from '../../lib/postgres/shards/move.ts'
import { withSnapshot } from '../../lib/postgres/snapshot.ts'
import {
  createPostgresStore,
  createShardedStore,
  migrate,
  type PostgresStore,
  type ShardedStore,
} from '../../lib/postgres.ts'
import { TEST_SERVER_FLAGS } from '../_database.ts'
import { until } from '../faults/_fixture.ts'
import { NAMES, organizationOn } from '../store/_shards.ts'

/** Longer than any transaction may take on the server, in ms. */
const LONG_MS = 2500
const LIMITS = ['max_prepared_transactions=5', 'transaction_timeout=2s']

let server: PostgresServer
let store: ShardedStore
const urls = new Map<string, string>()

before(async () => {
  const flags = LIMITS.flatMap((limit) => ['-c', limit])
  server = await startPostgres({ postgresFlags: [...TEST_SERVER_FLAGS, ...flags] })
  const sql = postgres(server.url)
  for (const name of [...NAMES, 'empty']) {
    await sql`create database ${sql(name)}`
    const url = new URL(server.url)
    url.pathname = `/${name}`
    urls.set(name, url.href)
  }
  await sql.end()
  const shards = NAMES.map((name) => [name, urls.get(name) ?? ''] as const)
  await Promise.all(shards.map(([, url]) => migrate(url)))
  store = createShardedStore({
    shards: Object.fromEntries(shards.map(([name, url]) => [name, createPostgresStore(url)])),
  })
})

after(async () => {
  await store.close()
  await server.stop()
})

function connect(t: TestContext, name: string): Sql {
  const sql = postgres(urls.get(name) ?? '')
  t.after(() => sql.end())
  return sql
}

const add = (organizationId: string, name = 'Atlas') =>
  createPlatform(store).clients.create(organizationId, { name })
const list = async (organizationId: string) => (await createPlatform(store).clients.list(organizationId)).data

function move(organizationId: string, to: string, options?: MoveOptions) {
  const shards = new Map([...urls].filter(([name]) => name !== 'empty'))
  return moveOrganization(shards, organizationId, to, options)
}

test('a prepared transaction delays a move, and reverts it if it stays', async (t) => {
  const organization = organizationOn('a', 1)
  await add(organization)
  const [sql, other] = [connect(t, 'a'), connect(t, 'b')]
  for (const [each, name] of [
    [sql, 'held'],
    [other, 'of another database'],
  ] as const) {
    await each`create table public.own (id text)`
    const session = await each.reserve()
    await session`begin`
    await session`insert into public.own values ('one')`
    await session.unsafe(`prepare transaction '${name}'`)
    session.release()
  }
  await assert.rejects(move(organization, 'b', { holdMs: 300 }), {
    code: STORE_UNAVAILABLE,
    message:
      'Cannot move the organization because transactions stay open (prepared transaction held): end them, and try again',
  })
  assert.equal((await add(organization)).business.name, 'Atlas')
  await sql.unsafe(`commit prepared 'held'`)
  await move(organization, 'b')
  assert.equal((await list(organization)).length, 2)
  await other.unsafe(`rollback prepared 'of another database'`)
})

test('a transaction that is prepared during a move and committed later is not lost', async (t) => {
  const organization = organizationOn('a', 2)
  await add(organization)
  const { store: own } = await store.shardOf(organization)
  const sql = connect(t, 'a')
  const session = await sql.reserve()
  await session`begin`
  const transaction = Object.assign(session, { savepoint: () => {} })
  await createPlatform(own).using(transaction).clients.create(organization, { name: 'Prepared' })
  const seen: string[] = []
  const moving = move(organization, 'b', { onStep: ({ step }) => seen.push(step) })
  await until('the organization is held', () => seen.includes('hold'), 30_000)
  await sleep(100)
  await session`prepare transaction 'late'`
  session.release()
  await sleep(200)
  await sql.unsafe(`commit prepared 'late'`)
  await moving
  assert.deepEqual((await list(organization)).map(({ business }) => business.name).toSorted(), [
    'Atlas',
    'Prepared',
  ])
  assert.equal((await store.shardOf(organization)).name, 'b')
})

test('a move, an export, the check of an import and a migration may take longer than transactions of the server', async () => {
  const organization = organizationOn('a', 3)
  await add(organization)
  const { store: own } = await store.shardOf(organization)
  let waits = 1
  const onStep: MoveOptions['onStep'] = ({ step }) => {
    // Blocks the process.
    if (step === 'copy' && waits-- > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LONG_MS)
  }
  const url = urls.get('a') ?? ''
  const pages = await withSnapshot(url, async (readPage) => {
    const first = await readPage(organization, 'client', null, 10)
    await sleep(LONG_MS)
    return [first, await readPage(organization, 'client', null, 10)]
  })
  assert.deepEqual(pages[0], pages[1])
  await rehearse(url, own as PostgresStore, async (records) => {
    for (const ms of [0, LONG_MS]) {
      await sleep(ms)
      assert.ok(
        await createPlatform({ ...own, ...records }).clients.create(organization, { name: 'Rehearsed' }),
      )
    }
  })
  assert.ok((await move(organization, 'b', { onStep })).copied > 0)
  const { applied } = await migrateFrom(urls.get('empty') ?? '', {
    '0001-slow.sql': `select pg_sleep(${LONG_MS / 1000})`,
  })
  assert.deepEqual(applied, ['0001-slow.sql'])
})

test('a call whose statement takes longer than transactions of the server is unavailable', async (t) => {
  const organization = organizationOn('a', 4)
  await add(organization)
  const sql = connect(t, 'a')
  await sql.begin(async (tx) => {
    await tx`set local transaction_timeout to 0`
    await tx`lock table business_api.businesses`
    await assert.rejects(list(organization), { code: STORE_UNAVAILABLE })
  })
  assert.equal((await list(organization)).length, 1)
})
