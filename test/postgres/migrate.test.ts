import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { BusinessApiError, SCHEMA_TOO_NEW } from '../../lib/base/errors.ts'
import { migrate, migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'

let database: TestDatabase
let sql: Sql

beforeEach(async () => {
  database = await createEmptyDatabase()
  sql = database.sql()
})

afterEach(() => database.drop())

describe('migrate()', () => {
  test("applies the package's migrations to an empty database, and does nothing the second time", async () => {
    const files = Object.keys(readMigrationTexts())
    assert.deepEqual(await migrate(sql), { applied: files, current: files.length })
    assert.deepEqual(await migrate(sql), { applied: [], current: files.length })
  })

  test('opens a new connection for a connection string and closes it', async () => {
    const url = new URL(database.url)
    url.searchParams.set('application_name', 'migrating alone')
    const { current } = await migrate(url.href)
    const [row] = await sql`select max(id) as current from business_api.migrations`
    assert.equal(row?.current, current)
    const sessions = (): Promise<readonly unknown[]> =>
      sql`select from pg_stat_activity where application_name = 'migrating alone'`
    await until('the server has ended the session', async () => (await sessions()).length === 0, 30_000)
  })

  test('called eight times at once on an empty database applies each migration once', async () => {
    const pools = Array.from({ length: 8 }, () => database.sql({ max: 1 }))
    const reports = await Promise.all(pools.map((pool) => migrate(pool)))
    const files = Object.keys(readMigrationTexts())
    assert.deepEqual(reports.flatMap(({ applied }) => applied).sort(), files)
    assert.deepEqual(
      reports.map(({ current }) => current),
      reports.map(() => files.length),
    )
  })

  test("waits for another migration longer than the host's statement timeout", async () => {
    const directory = await migrations({ '0001-slow.sql': 'select pg_sleep(0.4)' })
    const pools = [1, 2].map(() => database.sql({ max: 1, connection: { statement_timeout: 200 } }))
    const reports = await Promise.all(pools.map((pool) => migrateFrom(pool, directory)))
    assert.deepEqual(reports.map(({ applied }) => applied.length).sort(), [0, 1])
  })

  test('works if transactions are repeatable read and read-only by default', async () => {
    const directory = await migrations({ '0001-slow.sql': 'select pg_sleep(0.2)' })
    const connection = {
      default_transaction_isolation: 'repeatable read',
      default_transaction_read_only: true,
    } as const
    const pools = [1, 2].map(() => database.sql({ max: 1, connection }))
    const reports = await Promise.all(pools.map((pool) => migrateFrom(pool, directory)))
    assert.deepEqual(reports.map(({ applied }) => applied.length).sort(), [0, 1])
  })

  test('applies only pending migrations', async () => {
    await migrateFrom(sql, await migrations({ '0001-first.sql': 'create table public.first ()' }))
    const grown = await migrations({
      '0001-first.sql': 'create table public.first ()',
      '0002-second.sql': 'create table public.second ()',
    })
    assert.deepEqual(await migrateFrom(sql, grown), { applied: ['0002-second.sql'], current: 2 })
  })

  test('only needs to read the list of migrations if nothing is pending', async () => {
    const directory = await migrations({ '0001-first.sql': 'create table public.first ()' })
    await migrateFrom(sql, directory)
    await withRole(async (role, connection) => {
      await sql`grant usage on schema business_api to ${sql(role)}`
      await sql`grant select on business_api.migrations to ${sql(role)}`
      assert.deepEqual(await migrateFrom(connection, directory), { applied: [], current: 1 })
    })
  })

  test("can use a schema that an administrator has created for a user who isn't allowed to", async () => {
    const directory = await migrations({ '0001-first.sql': 'create table business_api.first ()' })
    await withRole(async (role, connection) => {
      await sql`create schema business_api authorization ${sql(role)}`
      assert.equal((await migrateFrom(connection, directory)).current, 1)
    })
  })

  test('leaves nothing of a failed migration, keeps earlier ones, and reports the file', async () => {
    const directory = await migrations({
      '0001-good.sql': 'create table public.good ()',
      '0002-bad.sql': 'create table public.bad (); select 1 / 0',
      '0003-after.sql': 'create table public.after ()',
    })
    await assert.rejects(migrateFrom(sql, directory), (error: Error) => {
      assert.equal(error.message, "Cannot apply migration '0002-bad.sql': division by zero")
      assert.ok(error.cause instanceof postgres.PostgresError)
      return true
    })
    const [row] = await sql`
      select to_regclass('public.good')::text as good, to_regclass('public.bad') as bad, to_regclass('public.after') as after,
             (select array_agg(id) from business_api.migrations) as applied
    `
    assert.deepEqual({ ...row }, { good: 'good', bad: null, after: null, applied: [1] })
  })

  test('leaves no settings on the connection', async () => {
    const pool = database.sql({ max: 1 })
    const readSettings = () =>
      pool`select current_setting('search_path'), current_setting('statement_timeout'),
                  current_setting('client_min_messages')`
    const before = await readSettings()
    await migrate(pool)
    assert.deepEqual([...(await readSettings())], [...before])
  })
})

describe('migrate() with the host’s connection', () => {
  const hosts: Record<string, postgres.Options<Record<never, never>>> = {
    'that renames columns': { transform: postgres.camel },
    'that transforms rows and values': {
      transform: {
        column: { from: (name) => name.toUpperCase() },
        value: { from: (value) => [value] },
        row: { from: (row) => Object.fromEntries(Object.entries(row)) },
      },
    },
    'behind a pooler in transaction mode': { prepare: false, fetch_types: false },
    'with one connection': { max: 1 },
  }
  for (const [name, options] of Object.entries(hosts)) {
    test(name, async () => {
      const host = database.sql(options)
      const { current } = await migrate(host)
      assert.ok(current > 0)
      assert.deepEqual(await migrate(host), { applied: [], current })
    })
  }

  test('with custom type parsers', async () => {
    const host = postgres(database.url, {
      types: {
        bool: { to: 16, from: [16], serialize: () => 'no', parse: () => 'maybe' },
        int4: { to: 23, from: [23], serialize: () => '-1', parse: () => -1n },
        bigint: postgres.BigInt,
      },
    })
    try {
      const { current } = await migrate(host)
      assert.deepEqual(await migrate(host), { applied: [], current })
    } finally {
      await host.end()
    }
  })
})

describe('migrate() on a database migrated by a newer version', () => {
  const known = { '0001-first.sql': 'select 1' }

  test('succeeds if older code can use it', async () => {
    const newer = { ...known, '0002-harmless.sql': 'select 2' }
    await migrateFrom(sql, await migrations(newer))
    assert.deepEqual(await migrateFrom(sql, await migrations(known)), { applied: [], current: 2 })
  })

  test('throws schema_too_new if one of the newer migrations is breaking', async () => {
    const newer = { ...known, '0002-breaking.sql': '--! breaking\nselect 2', '0003-more.sql': 'select 3' }
    await migrateFrom(sql, await migrations(newer))
    await assert.rejects(migrateFrom(sql, await migrations(known)), (error: unknown) => {
      assert.ok(error instanceof BusinessApiError)
      assert.equal(error.code, SCHEMA_TOO_NEW)
      assert.match(error.message, /'0002-breaking\.sql'.*knows migrations up to 1/)
      return true
    })
  })

  test('succeeds if this version knows the breaking migration', async () => {
    const breaking = { ...known, '0002-breaking.sql': '--! breaking\nselect 2' }
    await migrateFrom(sql, await migrations({ ...breaking, '0003-harmless.sql': 'select 3' }))
    assert.equal((await migrateFrom(sql, await migrations(breaking))).current, 3)
  })
})

describe('migrate() on a database with differently numbered migrations', () => {
  const ours = { '0001-first.sql': 'select 1', '0002-second.sql': 'select 2', '0003-third.sql': 'select 3' }
  const theirs: Record<string, Record<string, string>> = {
    'with as many migrations': { ...ours, '0002-other.sql': 'select 2' },
    'with fewer': { '0001-first.sql': 'select 1', '0002-other.sql': 'select 2' },
    'with more': { ...ours, '0002-other.sql': 'select 2', '0004-fourth.sql': '--! breaking\nselect 4' },
  }
  for (const [name, { '0002-second.sql': _, ...files }] of Object.entries(theirs)) {
    test(`${name}: reports both, says what to do, and applies nothing`, async () => {
      await migrateFrom(sql, await migrations(files))
      await assert.rejects(migrateFrom(sql, await migrations(ours)), {
        name: 'Error',
        message:
          "Cannot use this database: migration 2 is '0002-other.sql' in the database and '0002-second.sql' in this version; " +
          'use the version of business-api-kit that migrated it, or migrate an empty database',
      })
      const rows = await sql`select name from business_api.migrations order by id`
      assert.deepEqual(
        rows.map((row) => row.name),
        Object.keys(files).sort(),
      )
    })
  }
})

describe('migrate() rejects files', () => {
  const refused: Record<string, [files: string[], message: RegExp]> = {
    'with a number missing': [['0001-a.sql', '0003-c.sql'], /expected number 0002 but found '0003-c.sql'/],
    'with a number twice': [['0001-a.sql', '0001-b.sql'], /expected number 0002 but found '0001-b.sql'/],
    'whose names are of another form': [['1-a.sql'], /'1-a.sql' is not named like/],
  }
  for (const [name, [files, message]] of Object.entries(refused)) {
    test(name, async () => {
      const directory = await migrations(Object.fromEntries(files.map((file) => [file, 'select 1'])))
      await assert.rejects(migrateFrom(sql, directory), message)
    })
  }

  test('with an unknown mark', async () => {
    const directory = await migrations({ '0001-a.sql': '--! braking\nselect 1' })
    await assert.rejects(migrateFrom(sql, directory), /begins with the unknown mark '--! braking'/)
  })
})

/** Runs work with a user that has no privileges, and a connection of that user. */
async function withRole(work: (role: string, connection: Sql) => Promise<void>): Promise<void> {
  // Roles belong to the whole server, which other processes may be using.
  const role = `business_api_test_${randomUUID()}`
  await sql`create role ${sql(role)}`
  try {
    await work(role, database.sql({ max: 1, connection: { role } }))
  } finally {
    await sql`drop owned by ${sql(role)}`
    await sql`drop role ${sql(role)}`
  }
}

/** Migrations by file name. */
async function migrations(files: Record<string, string>): Promise<Record<string, string>> {
  return files
}
