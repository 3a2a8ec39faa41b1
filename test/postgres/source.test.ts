import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import postgres, { type Fragment, type ISql, type PendingQuery, type Row, type Sql } from 'postgres'
import { connectionFault } from '../../lib/postgres/connection/connection-fault.ts'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { createPostgresStore, type DatabaseOptions, migrate } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'

describe('a store behaves the same with a connection string and with a pool', () => {
  let database: TestDatabase
  let sql: Sql

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql({ max: 1 })
  })
  after(() => database.drop())

  /** A host's pool with the most adverse options. None of the statement options may make a difference. */
  const CONTRARY = {
    transform: { ...postgres.toCamel, undefined: null },
    types: {
      json: { to: 114, from: [114, 3802], serialize: () => '"!"', parse: () => '!' },
      text: { to: 25, from: [25], serialize: () => '!', parse: () => '!' },
      time: { to: 1184, from: [1184], serialize: () => 'now', parse: () => '!' },
    },
    debug: () => assert.fail('the host sees the statements of the store'),
    onnotice: () => assert.fail('the host gets the notices of the store'),
    onparameter: () => assert.fail('the host gets the parameters of the store'),
    onclose: () => assert.fail('the onclose of the host was called for a connection of the store'),
    fetch_types: true,
  } as unknown as postgres.Options<Record<never, never>>

  type Query = (sql: ISql) => PendingQuery<Row[]> | Fragment

  /** Runs work with a database of each kind of source. Returns the first column of `ask`. */
  async function withBoth(
    given: Readonly<Record<string, string | number | boolean>>,
    options: DatabaseOptions,
    work: (ask: (query: Query) => Promise<string | null>, name: string) => Promise<void>,
  ): Promise<void> {
    const url = new URL(database.url)
    for (const [name, value] of Object.entries(given)) url.searchParams.set(name, String(value))
    const pool = postgres(url.href, CONTRARY)
    for (const [name, source] of [
      ['connection string', url.href],
      ['pool', pool],
    ] as const) {
      const store = createDatabase(source, options)
      try {
        const ask = async (query: Query): Promise<string | null> =>
          (
            await store.row((tagged, tag) => tagged`select (${query(tagged) as Fragment})::text, ${tag}`)
          )[0] ?? null
        await work(ask, name)
      } finally {
        await store.close()
      }
    }
    await pool.end()
  }

  const setting =
    (name: string): Query =>
    (tagged) =>
      tagged`select current_setting(${name})`

  /** Parameters of the source, options of the store, a query, and the expected result for both. */
  const table: readonly (readonly [
    name: string,
    given: Readonly<Record<string, string | number | boolean>>,
    options: DatabaseOptions,
    query: Query,
    expected: string,
  ])[] = [
    ['application_name', {}, {}, setting('application_name'), 'business-api-kit'],
    ['an application_name', { application_name: 'mine' }, {}, setting('application_name'), 'mine'],
    ['a session parameter', { work_mem: '9MB' }, {}, setting('work_mem'), '9MB'],
    ['search_path', { search_path: 'app' }, {}, setting('search_path'), 'pg_catalog'],
    ['extra_float_digits', { extra_float_digits: 0 }, {}, setting('extra_float_digits'), '1'],
    ['statement_timeout', {}, {}, setting('statement_timeout'), '10s'],
    ['statement_timeout of the source', { statement_timeout: 1 }, {}, setting('statement_timeout'), '10s'],
    ['lock_timeout', { lock_timeout: 1 }, { statementTimeoutMs: 1000 }, setting('lock_timeout'), '800ms'],
    [
      'isolation',
      { default_transaction_isolation: 'serializable' },
      {},
      setting('transaction_isolation'),
      'read committed',
    ],
    ['jit', { jit: 'on' }, {}, setting('jit'), 'off'],
    ['enable_seqscan', { enable_seqscan: 'on' }, {}, setting('enable_seqscan'), 'off'],
    ['sessions: false', {}, { sessions: false }, setting('lock_timeout'), '0'],
    [
      'sessions: false, and a parameter of the source',
      { lock_timeout: '7s' },
      { sessions: false },
      setting('lock_timeout'),
      '7s',
    ],
    ['a text parameter', {}, {}, (tagged) => tagged`select ${'text'}::text`, 'text'],
    ['a JSON parameter', {}, {}, (tagged) => tagged`select ${'x'}::text || ${'{}'}::text::json::text`, 'x{}'],
    [
      'a date parameter',
      {},
      {},
      (tagged) => tagged`select ${'2000-01-01T00:00:00Z'}::timestamptz at time zone 'UTC'`,
      '2000-01-01 00:00:00',
    ],
    ['a null', {}, {}, (tagged) => tagged`select coalesce(${null}::text, 'null')`, 'null'],
  ]
  for (const [name, given, options, query, expected] of table) {
    test(name, () =>
      withBoth(given, options, async (ask, source) => {
        assert.equal(await ask(query), expected, source)
      }),
    )
  }

  test('an undefined value is an error, and the next statement succeeds', () =>
    withBoth({}, {}, async (ask, source) => {
      const undefinedValue = undefined as unknown as string
      await assert.rejects(
        ask((tagged) => tagged`select ${undefinedValue}::text`),
        { code: 'UNDEFINED_VALUE' },
        source,
      )
      assert.equal(await ask((tagged) => tagged`select 1`), '1')
    }))

  test('prepare: from the source unless the option is set', async () => {
    for (const [given, options, isPrepared] of [
      [{}, {}, true],
      [{ prepare: false }, {}, false],
      [{ prepare: false }, { prepare: true }, true],
      [{}, { prepare: false }, false],
      [{}, { sessions: false }, true],
    ] as const) {
      await withBoth(given, { ...options, maxConnections: 1 }, async (ask, source) => {
        const count: Query = (tagged) => tagged`select count(*) from pg_prepared_statements`
        await ask(count)
        assert.equal((await ask(count)) !== '0', isPrepared, `${source} ${JSON.stringify([given, options])}`)
      })
    }
  })

  test("sessions: false doesn't listen to notifications, and prepared statements still work", async () => {
    const listeners = async (): Promise<number> => {
      const [row] = await sql`select count(*)::int as count from pg_stat_activity
        where datname = current_database() and query like 'listen %'`
      return row?.count
    }
    for (const [sessions, expected] of [
      [false, 0],
      [true, 1],
    ] as const) {
      const store = createPostgresStore(database.url, { sessions })
      const { end: unwatch } = store.deliveries.watch(() => {})
      await store.apiKeys.list('org_a')
      if (expected > 0) await until('it listens', async () => (await listeners()) === expected, 30_000)
      else await sleep(300)
      assert.equal(await listeners(), expected)
      unwatch()
      await store.close()
    }
  })

  test('max: as many connections as the source says unless the option is set', async () => {
    for (const [options, expected] of [
      [{}, 3],
      [{ maxConnections: 2 }, 2],
    ] as const) {
      await withBoth({ max: 3, application_name: 'maximum' }, options, async (ask, source) => {
        await Promise.all(
          Array.from({ length: 12 }, () => ask((tagged) => tagged`select 1 from pg_sleep(0.1)`)),
        )
        assert.equal(await countSessions('maximum'), expected, source)
      })
      await until('its sessions have ended', async () => (await countSessions('maximum')) === 0, 30_000)
    }
  })

  test("twenty connections opened at once don't cause a warning", async (t) => {
    const warnings: Error[] = []
    const warn = (warning: Error): number => warnings.push(warning)
    process.on('warning', warn)
    t.after(() => process.off('warning', warn))
    const store = createPostgresStore(database.url, { maxConnections: 20 })
    t.after(() => store.close())
    await Promise.all(Array.from({ length: 20 }, (_, number) => store.apiKeys.list(`org_${number}`)))
    await turn()
    assert.deepEqual(
      warnings.map(({ name, message }) => `${name}: ${message}`),
      [],
    )
  })

  test("idle_timeout: idle connections are closed after the source's timeout", () =>
    withBoth({ idle_timeout: 1, application_name: 'idle' }, {}, async (ask) => {
      await ask((tagged) => tagged`select 1`)
      assert.equal(await countSessions('idle'), 1)
      await until('it is closed', async () => (await countSessions('idle')) === 0, 30_000)
      assert.equal(await ask((tagged) => tagged`select 1`), '1')
    }))

  test("max_lifetime: connections are replaced after the source's lifetime", () =>
    withBoth({ max_lifetime: 1 }, { maxConnections: 1 }, async (ask, source) => {
      const pid: Query = (tagged) => tagged`select pg_backend_pid()`
      const first = await ask(pid)
      assert.equal(await ask(pid), first, source)
      await sleep(1100)
      await ask(pid)
      assert.notEqual(await ask(pid), first, source)
    }))

  for (const [what, change, reason] of [
    [
      'a wrong password',
      { password: 'wrong' },
      'the password was rejected; check the user and the password in the connection string',
    ],
    [
      'no such database',
      { pathname: '/nothing' },
      'no database has that name; check the name in the connection string, or create the database',
    ],
    ['no server', { port: '1' }, 'the connection was refused; is it running?'],
    [
      'no TLS',
      { search: '?sslmode=verify-full' },
      'the server does not speak TLS; leave sslmode out of the connection string',
    ],
    [
      'a parameter',
      { search: '?no_such_setting=1' },
      'it rejects the parameter no_such_setting; correct the parameter in the connection string, or leave it out',
    ],
  ] as const)
    test(`a server that rejects the connection, with the reason: ${what}`, async () => {
      const { href } = Object.assign(new URL(database.url), change)
      const pool = postgres(href)
      for (const source of [href, pool]) {
        const store = createPostgresStore(source)
        await assert.rejects(store.apiKeys.list('org_a'), {
          code: 'store_unavailable',
          message: `Cannot reach PostgreSQL: ${reason}`,
        })
        await store.close()
      }
      await pool.end()
    })

  test("a statement that fails doesn't affect the connection, whatever its code", async () => {
    for (const [code, statement] of [
      ['22023', `select jsonb_array_elements('1')`],
      ['42704', 'select null::no_such_type'],
    ] as const) {
      const error: unknown = await sql.unsafe(statement).catch((reason) => reason)
      assert.equal(Reflect.get(Object(error), 'code'), code)
      assert.equal(connectionFault(error), null)
    }
  })

  test('several hosts and target_session_attrs: uses a host that meets the condition, otherwise store_unavailable', async () => {
    const { host, port } = new URL(database.url)
    const several = database.url.replace(host, `127.0.0.1:1,127.0.0.1:${port}`)
    for (const [target, isServed] of [
      ['any', true],
      ['read-write', true],
      ['primary', true],
      ['prefer-standby', true],
      ['standby', false],
      ['read-only', false],
    ] as const) {
      const url = `${several}?target_session_attrs=${target}`
      // postgres.js doesn't support 'any'.
      const pool = postgres(target === 'any' ? several : url)
      for (const source of [url, pool]) {
        const store = createPostgresStore(source)
        const listed = store.apiKeys.list('org_a')
        if (isServed) assert.deepEqual(await listed, [], target)
        else await assert.rejects(listed, { code: 'store_unavailable' }, target)
        await store.close()
      }
      await pool.end()
      if (isServed) assert.deepEqual((await migrate(url)).applied, [])
    }
  })

  async function countSessions(name: string): Promise<number> {
    const [row] =
      await sql`select count(*)::int as count from pg_stat_activity where application_name = ${name}`
    return row?.count
  }
})
