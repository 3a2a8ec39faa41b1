import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { isReadOnlyServer, leavesConnectionUsable } from '../../lib/postgres/connection/driver-faults.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from '../faults/_fixture.ts'

const database = await createTestDatabase()
after(() => database.drop())
const sql = database.sql({ max: 1 })
const name = new URL(database.url).pathname.slice(1)
const { key } = await makeApiKey(database.url, 'org_read_only')

const CONNECTIONS = 10

type Call = () => Promise<number>

async function inTurn(calls: readonly Call[]): Promise<number[]> {
  const answers: number[] = []
  for (const call of calls) answers.push(await call())
  return answers
}

test('a database that has become read-only: 503 and the connections are closed, then normal service without a restart', async (t) => {
  const store = createPostgresStore(database.url, { maxConnections: 3 })
  t.after(() => store.close())
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const create = async (): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const call = { method: 'POST', headers, body: '{"name":"Atlas"}' }
    return (await api(new Request('http://localhost/api/v1/clients', call))).status
  }
  const createAtOnce = () => Promise.all(Array.from({ length: 6 }, create))
  // Read-only from the start of each session, like on a standby.
  await sql`alter database ${sql(name)} set default_transaction_read_only = on`
  assert.deepEqual(new Set(await createAtOnce()), new Set([503]))
  assert.deepEqual(new Set(await createAtOnce()), new Set([503]))

  await sql`set default_transaction_read_only = off`
  await sql`alter database ${sql(name)} reset default_transaction_read_only`
  // If connections were kept, they'd stay read-only forever.
  await until('all is served', async () => (await createAtOnce()).every((status) => status === 200), 30_000)
})

for (const [order, run] of [
  ['one after the other', inTurn],
  ['at once', (calls: readonly Call[]) => Promise.all(calls.map((call) => call()))],
] as const) {
  test(`idle connections that are still read-only don't fail a request once the server can write again: ${order}`, async (t) => {
    const store = createPostgresStore(`${database.url}?application_name=${CONNECTIONS}`, {
      maxConnections: CONNECTIONS,
    })
    t.after(() => store.close())
    const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
    const keys: string[] = []
    while (keys.length < CONNECTIONS) keys.push((await makeApiKey(database.url, `org_${keys.length}`)).key)
    await sql`alter database ${sql(name)} set default_transaction_read_only = on`
    const areAllOpen = async (): Promise<boolean> => {
      await Promise.all(keys.map((_, index) => store.apiKeys.list(`org_${index}`)))
      const sessions = await sql`select from pg_stat_activity where application_name = ${`${CONNECTIONS}`}`
      return sessions.length === CONNECTIONS
    }
    await until('all connections are open', areAllOpen, 30_000)
    await sql`set default_transaction_read_only = off`
    await sql`alter database ${sql(name)} reset default_transaction_read_only`

    const statuses = await run(
      keys.map((key) => async () => {
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
        const call = { method: 'POST', headers, body: '{"name":"Atlas"}' }
        return (await api(new Request('http://localhost/api/v1/clients', call))).status
      }),
    )
    assert.deepEqual(new Set(statuses), new Set([200]))
  })
}

test("target_session_attrs=read-write: a read-only server isn't used, not even for reads", async (t) => {
  await sql`alter database ${sql(name)} set default_transaction_read_only = on`
  const writing = createPostgresStore(`${database.url}?target_session_attrs=read-write`)
  t.after(() => writing.close())
  const any = createPostgresStore(database.url)
  t.after(() => any.close())
  await assert.rejects(writing.apiKeys.list('org_read_only'), { code: 'store_unavailable' })
  assert.equal((await any.apiKeys.list('org_read_only')).length, 1)
  await sql`set default_transaction_read_only = off`
  await sql`alter database ${sql(name)} reset default_transaction_read_only`
  await until(
    'it is served',
    () =>
      writing.apiKeys.list('org_read_only').then(
        () => true,
        () => false,
      ),
    3000,
  )
})

test("a rejected statement keeps the connection, a read-only server doesn't", async () => {
  for (const [statement, isUsable, isReadOnly] of [
    ['select 1 / 0', true, false],
    ['select * from business_api.nothing', true, false],
    ["do $$ begin raise exception 'no' using errcode = '40P01'; end $$", true, false],
    ['set default_transaction_read_only = on; select 1; create table public.t ()', true, false],
    ['begin read only; create table public.t ()', false, true],
    ['select pg_terminate_backend(pg_backend_pid())', false, false],
  ] as const) {
    const connection = database.sql({ max: 1 })
    const error = await connection.unsafe(statement).then(
      () => null,
      (reason) => reason,
    )
    if (error === null) continue
    assert.equal(leavesConnectionUsable(error), isUsable, `${statement}: ${error}`)
    assert.equal(isReadOnlyServer(error), isReadOnly, `${statement}: ${error}`)
  }
})
