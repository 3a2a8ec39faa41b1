import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { describePending } from '../../lib/cli/database.ts'
import { migrate, migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import {
  compareMigrations,
  readMigrations,
  writeMigrationScript,
} from '../../lib/postgres/schema/migrations.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, textOf } from './_cli.ts'

const FILES = Object.keys(readMigrationTexts())

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

beforeEach(async () => {
  database = await createEmptyDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

afterEach(() => database.drop())

/** The migrations of the next version. */
const NEXT = { ...readMigrationTexts(), '0002-next.sql': 'create table business_api.next ();' }

/** A migration of a future version. */
async function applyNewer(breaking: boolean): Promise<void> {
  await sql`insert into business_api.migrations (id, name, breaking) values (9999, '9999-to-come.sql', ${breaking})`
}

describe('migrate', () => {
  test('applies pending migrations, and nothing the second time', async () => {
    const current = FILES.length
    assert.deepEqual(jsonOf(await run('migrate', '--dry-run', '--json')), { pending: FILES, current: 0 })
    assert.deepEqual(jsonOf(await run('migrate', '--json')), { applied: FILES, current })
    assert.deepEqual(jsonOf(await run('migrate', '--json')), { applied: [], current })
    assert.deepEqual(jsonOf(await run('migrate', '--dry-run', '--json')), { pending: [], current })
  })

  test('prints the files for people', async () => {
    assert.equal(textOf(await run('migrate', '--dry-run')), FILES.map((name) => `Pending ${name}\n`).join(''))
    assert.equal(textOf(await run('migrate')), FILES.map((name) => `Applied ${name}\n`).join(''))
    assert.equal(textOf(await run('migrate')), `Nothing to do: the schema is up to date (${FILES.length})\n`)
  })

  test('uses --database-url rather than the environment', async () => {
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none' }
    const args = ['migrate', '--dry-run', '--json', '--database-url', database.url]
    assert.equal(jsonOf(await cli(args, { env })).current, 0)
  })

  test('--print prints a script that does the same, with all migrations if there is no database', async () => {
    const script = textOf(await cli(['migrate', '--print']))
    assert.equal(textOf(await run('migrate', '--print')), script)
    await sql.unsafe(script)
    assert.deepEqual(jsonOf(await run('migrate', '--json')), { applied: [], current: FILES.length })
    const { checks } = jsonOf(await run('doctor', '--json'))
    assert.equal(checks.find(({ name }: { name: string }) => name === 'schema').level, 'ok')
    // If the script is run twice by mistake, nothing changes.
    await assert.rejects(sql.unsafe(script))
    await sql.unsafe('rollback')
    assert.equal(textOf(await run('migrate', '--print')), '')
  })

  test('--print as JSON has the SQL of each migration', async () => {
    const { data } = jsonOf(await run('migrate', '--print', '--json'))
    assert.deepEqual(
      data.map(({ name }: { name: string }) => name),
      FILES,
    )
    assert.match(data[0].sql, /create table business_api\./)
  })

  test('--print only prints the missing migrations', async () => {
    await run('migrate')
    assert.equal(textOf(await run('migrate', '--print')), '')
    const script = writeMigrationScript((await readMigrations(NEXT)).slice(1), false)
    assert.ok(script.startsWith('-- 0002-next.sql\n\nbegin;\n'))
    assert.doesNotMatch(script, /0001-|create schema/)
    await sql.unsafe(script)
    assert.deepEqual((await migrateFrom(sql, NEXT)).applied, [])
  })

  test("fails with one line if a migration can't be applied, and leaves no trace of it", async () => {
    await sql`create schema business_api`
    await sql`create table business_api.leads ()`
    assertFailed(
      await run('migrate'),
      1,
      /Cannot apply migration '0001-baseline.sql': relation "leads" already exists/,
    )
    assert.equal(jsonOf(await run('migrate', '--dry-run', '--json')).current, 0)
  })

  test('--timeout limits the wait for another process', async () => {
    await database.sql({ max: 1 }).begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(7094703731946386291)`
      assertFailed(
        await run('migrate', '--timeout', '1ms'),
        1,
        /because another process is still migrating; wait/,
      )
    })
    assertFailed(await run('migrate', '--timeout', 'soon'), 2, /--timeout must be/)
  })

  test('fails at once if its session is ended', async () => {
    const running = run('migrate')
    await until(
      'it migrates',
      async () => {
        const ended = await sql`
        select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and l.mode = 'ExclusiveLock'`
        return ended.length > 0
      },
      10_000,
    )
    const endedAt = performance.now()
    assertFailed(await running, 1, /the connection was closed/)
    // The driver would wait five seconds for the connection.
    assert.ok(performance.now() - endedAt < 4000)
  })

  test('the script of --print applies nothing after a migration has failed', async () => {
    await sql`create schema business_api`
    await sql`create table business_api.next ()`
    const script = writeMigrationScript(await readMigrations({ ...NEXT, '0003-later.sql': 'select 1' }), true)
    // Like psql without ON_ERROR_STOP, continues after a failed statement.
    for (const part of script.split(/(?<=^commit;)$/m)) {
      await sql.unsafe(part).catch(() => sql.unsafe('rollback'))
    }
    const rows = await sql`select id from business_api.migrations`
    assert.deepEqual([...rows], [{ id: 1 }])
  })
})

test('reports a migration missing in between, and applies nothing', async () => {
  await run('migrate')
  await sql`update business_api.migrations set id = 2, name = '0002-to-come.sql'`
  for (const command of ['migrate', 'migrate --dry-run', 'migrate --print', 'keys list --organization O']) {
    assertFailed(
      await run(...command.split(' ')),
      1,
      /Cannot use this database: 0001-baseline.sql has no row in business_api.migrations/,
    )
  }
  await assert.rejects(migrate(sql), /0001-baseline.sql has no row/)
})

describe('a database whose migrations are numbered differently', () => {
  beforeEach(async () => {
    textOf(await run('migrate'))
    await sql`update business_api.migrations set name = '0001-businesses.sql'`
  })

  for (const command of [
    'migrate',
    'migrate --dry-run',
    'migrate --print',
    'keys list --organization O',
    'deliver',
  ]) {
    test(`is rejected by ${command} with both names and advice`, async () => {
      assertFailed(
        await run(...command.split(' ')),
        1,
        /Cannot use this database: migration 1 is '0001-businesses.sql' in the database and '0001-baseline.sql' in this version; use the version /,
      )
    })
  }

  test('is described by status without reading anything else', async () => {
    const { schema, ...rest } = jsonOf(await run('status', '--json'))
    const renamed = [{ id: 1, applied: '0001-businesses.sql', known: '0001-baseline.sql' }]
    assert.deepEqual(schema, { current: FILES.length, latest: FILES.length, pending: [], newer: [], renamed })
    assert.deepEqual(rest, {
      backlog: null,
      retention: null,
      endpoints: null,
      apiKeys: null,
      recoverable: null,
    })
    assert.match(
      textOf(await run('status')),
      /^Schema {2}\d+; migration 1 is '0001-businesses.sql' in the database and '0001-baseline.sql' in this version\n$/,
    )
  })
})

describe('a database that was not migrated', () => {
  const commands = [
    'keys list --organization O',
    'endpoints list --organization O',
    'deliveries list --organization O',
    'purge --older-than 30d',
    'deliver',
  ]
  for (const command of commands) {
    test(`is rejected by ${command} with advice`, async () => {
      assertFailed(
        await run(...command.split(' ')),
        1,
        /Cannot use this database: it is not migrated yet; run: business-api-kit migrate/,
      )
    })
  }

  test("is described by the names of the pending migrations if it's only behind", async () => {
    const [baseline, ...later] = await readMigrations({ ...NEXT, '0003-later.sql': 'select 1' })
    assert.ok(baseline)
    const behind = compareMigrations([baseline], [baseline, ...later])
    assert.equal(describePending(behind), 'the migrations 0002-next.sql, 0003-later.sql are pending')
    const almost = compareMigrations([baseline], [baseline, ...later.slice(0, 1)])
    assert.equal(describePending(almost), 'the migration 0002-next.sql is pending')
  })

  test('is described by status', async () => {
    const { schema, ...rest } = jsonOf(await run('status', '--json'))
    assert.deepEqual(schema, { current: 0, latest: FILES.length, pending: FILES, newer: [], renamed: [] })
    assert.deepEqual(rest, {
      backlog: null,
      retention: null,
      endpoints: null,
      apiKeys: null,
      recoverable: null,
    })
    assert.equal(textOf(await run('status')), 'Schema  not migrated yet; run: business-api-kit migrate\n')
  })
})

describe('a database of a newer version', () => {
  test('can be used if the newer migrations allow it', async () => {
    await run('migrate')
    await applyNewer(false)
    assert.deepEqual(jsonOf(await run('keys', 'list', '--organization', 'O', '--json')), { data: [] })
    assert.deepEqual(jsonOf(await run('migrate', '--json')), { applied: [], current: 9999 })
    assert.match(
      textOf(await run('status')),
      /^Schema .* 9999, made by a newer version; this one knows \d+$/m,
    )
  })

  test('is rejected by every command except status if the migrations are incompatible', async () => {
    await run('migrate')
    await applyNewer(true)
    const commands = [
      'migrate',
      'migrate --dry-run',
      'migrate --print',
      'keys list --organization O',
      'deliver',
    ]
    for (const command of commands) {
      assertFailed(
        await run(...command.split(' ')),
        1,
        /it holds the breaking migration '9999-to-come.sql', .*; install a newer one/,
      )
    }
    assert.deepEqual(jsonOf(await run('status', '--json')).schema.newer, ['9999-to-come.sql'])
  })
})
