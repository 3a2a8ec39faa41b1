import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { checkClock, checkVersion } from '../../lib/cli/checks.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents } from '../_days.ts'
import { finishDeliveries } from '../_deliveries.ts'
import { assertFailed, cli, cliOn, jsonOf, PASSWORD, type Result, SECRET_KEY, textOf } from './_cli.ts'
import { publish } from './_events.ts'

interface Check {
  readonly name: string
  readonly level: string
  readonly message: string
  readonly details?: readonly string[]
  readonly advice?: string
}

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

/** Returns a check of the report after asserting that the exit code and the text match it. */
async function diagnose(name: string, result: Promise<Result> = run('doctor', '--json')): Promise<Check> {
  const { exitCode, stdout, stderr } = await result
  const { ok, checks }: { ok: boolean; checks: readonly Check[] } = JSON.parse(stdout)
  const failed = checks.filter(({ level }) => level === 'fail')
  assert.equal(ok, failed.length === 0)
  if (ok) assert.deepEqual({ exitCode, stderr }, { exitCode: 0, stderr: '' })
  else assertFailed({ exitCode, stdout, stderr }, 1, new RegExp(failed.map((check) => check.name).join(', ')))
  const check = checks.find((one) => one.name === name)
  assert.ok(check, stdout)
  if (check.level === 'fail') assert.ok(check.advice, 'says what to do')
  return check
}

test('a healthy database passes all checks', async () => {
  const { ok, checks } = jsonOf(await run('doctor', '--json'))
  assert.equal(ok, true)
  assert.deepEqual(
    checks.map(({ name, level }: Check) => `${name} ${level}`),
    [
      'connection',
      'version',
      'clock',
      'migrations',
      'schema',
      'leases',
      'backlog',
      'days',
      'retention',
      'installation',
      'secrets',
      'keys',
    ].map((name) => `${name} ok`),
  )
  const text = textOf(await run('doctor'))
  assert.match(
    text,
    /^ok {4}connection {2}database business_api_test_\w+ on PostgreSQL \d+\.\d+ answers in \d+\.\d ms$/m,
  )
  assert.match(text, /^ok {4}secrets {5}all 0 can be opened$/m)
})

describe('the connection', () => {
  test('is the only finding if there is no response', async () => {
    const env = { DATABASE_URL: `postgres://user:${PASSWORD}@127.0.0.1:1/none` }
    const result = await cli(['doctor', '--json'], { env })
    assertFailed(result, 1, /The check connection has failed/)
    const { checks } = JSON.parse(result.stdout)
    assert.equal(checks.length, 1)
    assert.match(
      checks[0].message,
      /Cannot reach PostgreSQL \(127\.0\.0\.1:1, user user, database none\): the connection was refused/,
    )
    assertFailed(await cli(['doctor'], { env }), 1, /see the advice above/)
  })
})

describe('the schema', () => {
  afterEach(async () => {
    const { message } = await diagnose('schema')
    assert.equal(message, 'matches the migrations', 'the test has not cleaned up')
  })

  const changes: readonly { change: string; undo: string; detail: string }[] = [
    {
      change: 'alter table business_api.leads add column nickname text',
      undo: 'alter table business_api.leads drop column nickname',
      detail: 'column leads.nickname was created by no migration',
    },
    {
      change: 'create index leads_status_idx on business_api.leads (stage)',
      undo: 'drop index business_api.leads_status_idx',
      detail: 'index leads_status_idx was created by no migration',
    },
    {
      change: 'create view business_api.everything as select 1 as one',
      undo: 'drop view business_api.everything',
      detail: 'view everything was created by no migration',
    },
    {
      change: 'alter table business_api.leads alter column stage drop not null',
      undo: 'alter table business_api.leads alter column stage set not null',
      detail: 'column leads.stage differs from the migrations',
    },
    {
      change: 'alter table business_api.open_deliveries alter column attempts set default 1',
      undo: 'alter table business_api.open_deliveries alter column attempts set default 0',
      detail: 'column open_deliveries.attempts differs from the migrations',
    },
    {
      change: 'alter table business_api.rate_buckets set logged',
      undo: 'alter table business_api.rate_buckets set unlogged',
      detail: 'table rate_buckets differs from the migrations',
    },
    {
      change: 'alter table business_api.leads enable row level security',
      undo: 'alter table business_api.leads disable row level security',
      detail: 'table leads differs from the migrations',
    },
    {
      change: 'drop index business_api.open_deliveries_backing_off_idx',
      undo: 'create index open_deliveries_backing_off_idx on business_api.open_deliveries (due_at) where is_backing_off',
      detail: 'index open_deliveries_backing_off_idx is missing',
    },
    {
      change: 'alter table business_api.leads drop constraint leads_expected_value_check',
      undo: `alter table business_api.leads add constraint leads_expected_value_check check (expected_value <> 'NaN'::numeric)`,
      detail: 'constraint leads.leads_expected_value_check is missing',
    },
    {
      change:
        'alter function business_api.publish_event(text, text, jsonb, text, text) set search_path = public',
      undo: `alter function business_api.publish_event(text, text, jsonb, text, text) set search_path = ''`,
      detail:
        'function publish_event(organization_id text, type text, data jsonb, id text, traceparent text) differs from the migrations',
    },
  ]
  for (const { change, undo, detail } of changes) {
    test(`${change}: is reported`, async () => {
      await sql.unsafe(change)
      const check = await diagnose('schema')
      await sql.unsafe(undo)
      assert.deepEqual(check.details, [detail])
      assert.equal(check.level, detail.endsWith('no migration') ? 'warn' : 'fail')
    })
  }

  test("doesn't include settings changed by an operator", async () => {
    await sql`alter table business_api.open_deliveries set (autovacuum_vacuum_scale_factor = 0.5)`
    await sql`grant usage on schema business_api to public`
    assert.equal((await diagnose('schema')).level, 'ok')
    await sql`alter table business_api.open_deliveries reset (autovacuum_vacuum_scale_factor)`
    await sql`revoke usage on schema business_api from public`
  })

  test('shows ten objects', async () => {
    await sql`create table business_api.mine (a int, b int, c int, d int, e int, f int, g int, h int, i int, j int)`
    const text = textOf(await run('doctor'))
    await sql`drop table business_api.mine`
    assert.equal([...text.matchAll(/^ {18}- .* was created by no migration$/gm)].length, 10)
    assert.match(text, /^ {18}- and 1 more$/m)
    assert.match(text, /^ {18}→ keep your own objects in another schema/m)
  })
})

describe('migrations', () => {
  test('fail if any are pending, and the other checks are skipped', async () => {
    const [last] = await sql`
      delete from business_api.migrations where id = (select max(id) from business_api.migrations) returning *`
    const result = run('doctor', '--json')
    const check = await diagnose('migrations', result)
    assert.deepEqual([check.level, check.advice], ['fail', 'run: business-api-kit migrate'])
    assert.equal(JSON.parse((await result).stdout).checks.length, 4)
    await sql`insert into business_api.migrations ${sql(last ?? {})}`
  })

  test("fail if some are missing in between, because migrate wouldn't help", async () => {
    await sql`update business_api.migrations set id = 2, name = '0002-to-come.sql'`
    const { message, advice } = await diagnose('migrations')
    await sql`update business_api.migrations set id = 1, name = '0001-baseline.sql'`
    assert.match(message, /^0001-baseline\.sql has no row in business_api\.migrations, though later /)
    assert.match(advice ?? '', /^do not migrate/)
  })

  test('fail if they have other names, because the schema is from another version', async () => {
    await sql`update business_api.migrations set name = '0001-businesses.sql'`
    const result = run('doctor', '--json')
    const { message, advice } = await diagnose('migrations', result)
    await sql`update business_api.migrations set name = '0001-baseline.sql'`
    assert.equal(
      message,
      "migration 1 is '0001-businesses.sql' in the database and '0001-baseline.sql' in this version",
    )
    assert.match(advice ?? '', /^use the version of business-api-kit that migrated it/)
    assert.equal(JSON.parse((await result).stdout).checks.length, 4)
  })

  test("warn if they are from a newer version, or fail if this version can't use the schema", async () => {
    for (const breaking of [false, true]) {
      await sql`insert into business_api.migrations (id, name, breaking) values (9999, '9999-to-come.sql', ${breaking})`
      const result = run('doctor', '--json')
      const check = await diagnose('migrations', result)
      await sql`delete from business_api.migrations where id = 9999`
      assert.deepEqual([check.level, check.details], [breaking ? 'fail' : 'warn', ['9999-to-come.sql']])
      if (!breaking) assert.equal((await diagnose('schema', result)).level, 'warn')
    }
  })
})

describe("a check that can't be made", () => {
  test('says what to do if the user lacks privileges', async () => {
    const role = `business_api_test_${randomUUID()}`
    await sql`create role ${sql(role)}`
    const url = `${database.url}?role=${role}`
    const result = cliOn(url)('doctor', '--json')
    const { message, advice } = await diagnose('migrations', result)
    assert.match(message, /permission denied for schema business_api/)
    assert.match(
      advice ?? '',
      /or grant this one its privileges: business-api-kit grants --administrator ROLE/,
    )
    assert.match((await cliOn(url)('doctor')).stdout, /^ {18}→ .*grant/m)
    await sql`grant usage on schema business_api to ${sql(role)}`
    await sql`grant select on business_api.migrations to ${sql(role)}`
    assert.match((await diagnose('leases', cliOn(url)('doctor', '--json'))).advice ?? '', /grant this one/)
    await sql`drop owned by ${sql(role)}`
    await sql`drop role ${sql(role)}`
  })

  test('says what to do after any other failure', async () => {
    await sql`alter table business_api.migrations rename column breaking to broken`
    const { advice } = await diagnose('migrations')
    await sql`alter table business_api.migrations rename column broken to breaking`
    assert.match(advice ?? '', /read its log/)
  })
})

describe('deliveries', () => {
  const url = ['--url', 'http://127.0.0.1:4000/', '--allow-http', '--allow-private-networks']

  async function setUp(column: 'due_at' | 'lease_until', ago: string): Promise<void> {
    await run('endpoints', 'add', '--organization', 'org_1', ...url)
    await publish(sql, 'org_1')
    const moment = sql`now() - ${ago}::text::interval`
    await sql`
      update business_api.open_deliveries
      set claim_token = ${column === 'lease_until' ? 'token' : null}, ${sql(column)} = ${moment}`
  }

  afterEach(
    () =>
      sql`truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries, business_api.webhook_endpoints`,
  )

  test("fail if expired leases weren't taken over for a while", async () => {
    await setUp('lease_until', '30 seconds')
    assert.equal((await diagnose('leases')).level, 'ok')
    await sql`update business_api.open_deliveries set lease_until = now() - interval '1 hour'`
    const { level, message } = await diagnose('leases')
    assert.equal(level, 'fail')
    assert.match(message, /^1 ended up to 1 h ago, and no process has taken over$/)
  })

  test('warn about a backlog after a minute and fail after a quarter of an hour', async () => {
    await setUp('due_at', '30 seconds')
    assert.match((await diagnose('backlog')).message, /^1 due, the oldest for 3\d\.\d s$/)
    const levels: string[] = []
    for (const minutes of [0, 2, 20]) {
      await sql`update business_api.open_deliveries set due_at = now() - ${minutes} * interval '1 minute'`
      levels.push((await diagnose('backlog')).level)
    }
    assert.deepEqual(levels, ['ok', 'warn', 'fail'])
  })

  test('check the days of events that end soon, are missing or incomplete, and pass once the advice was followed', async (t) => {
    const own = await createTestDatabase()
    t.after(() => own.drop())
    const owner = own.sql({ max: 1 })
    const judge = async () => {
      const { level, message, details, advice } = await diagnose('days', cliOn(own.url)('doctor', '--json'))
      return { finding: `${level}: ${message}`, details, advice }
    }
    const dropDays = async (from: string) => {
      for (const {
        name,
      } of await owner`delete from business_api.event_days where begins_at >= ${from}::text::timestamptz returning name`) {
        for (const table of ['events', 'finished_deliveries', 'delivery_attempts']) {
          await owner.unsafe(`drop table business_api.${table}_${name}`)
        }
      }
    }
    const follow = async (advice: string | undefined) =>
      owner.unsafe(advice?.match(/select .*/)?.[0] ?? assert.fail(advice))
    await dropDays('now')
    const soon = await judge()
    assert.match(soon.finding, /^warn: there are tables for the events of the next \d.*$/)
    const run =
      'run a delivery loop (business-api-kit deliver), at least once in five days: a loop makes the days'
    assert.equal(soon.advice, run)

    const [today] = await owner`select name from business_api.event_days where ends_at > now()`
    await publish(owner, 'org_1')
    for (const loss of [
      `drop table business_api.delivery_attempts_${today?.name}`,
      `drop table business_api.finished_deliveries_${today?.name}, business_api.delivery_attempts_${today?.name}`,
      `alter table business_api.events detach partition business_api.events_${today?.name}`,
    ]) {
      await owner.unsafe(loss)
      const { finding, details, advice } = await judge()
      assert.deepEqual(
        [finding, details],
        [
          'fail: tables of some days are gone or detached: on these days nothing can be published, or deliveries stay pending',
          [today?.name],
        ],
      )
      await follow(advice)
      assert.match((await judge()).finding, /^(ok|warn): there are tables for the events of the next/)
      await publish(owner, 'org_1')
    }
    assert.equal((await owner`select 1 from business_api.events`).length, 4)
    const days = () =>
      owner`select name, begins, ends, begins_at::text, ends_at::text from business_api.event_days order by begins`
    const known = await days()
    for (const change of [
      'delete from business_api.event_days',
      `update business_api.event_days set ends = 'dlv_1', ends_at = ends_at + interval '1 day'`,
    ]) {
      await owner.unsafe(change)
      const { finding, details, advice } = await judge()
      assert.deepEqual(
        [finding, details],
        [
          'fail: event_days lacks the rows of some days, or has other bounds than the tables: these days are not dropped in time, and the logs omit them',
          known.map(({ name }) => name),
        ],
      )
      await follow(advice)
      assert.match((await judge()).finding, /^(ok|warn): there are tables for the events of the next/)
      assert.deepEqual([...(await days())], [...known])
    }

    await dropDays('-infinity')
    assert.deepEqual(await judge(), {
      finding: 'warn: there are no tables for the events of today: the next publisher makes them',
      details: undefined,
      advice: run,
    })
    // A session that has just published has cached its day.
    await publish(own.sql({ max: 1 }), 'org_1')
    assert.match((await judge()).finding, /^ok: there are tables/)
  })

  test("warn about old events after an hour and fail after a day, according to the loops' retention", async () => {
    await run('endpoints', 'add', '--organization', 'org_1', ...url)
    await publish(sql, 'org_1')
    await finishDeliveries(sql, 'delivered')
    // An event is on time until its day can be dropped and for a day and a half after that, which is 780 hours.
    let agedMs = 0
    const judge = async (hours: number) => {
      await ageEvents(sql, hours * 3_600_000 - agedMs)
      agedMs = hours * 3_600_000
      const { level, message, advice } = await diagnose('retention')
      const { retention } = jsonOf(await run('status', '--json'))
      assert.ok(Math.abs(retention.lagMs - Math.max(0, hours - 780) * 3_600_000) < 60_000)
      return `${level}: ${message}${advice === undefined ? '' : `; ${advice}`}`
    }
    assert.equal(await judge(780.5), 'ok: events are kept for 30 d; the purge never ran')
    assert.match(
      await judge(782),
      /^warn: events are kept for 30 d, and the purge is 2 h late; the purge never ran; .*--older-than 30d$/,
    )
    assert.match(await judge(810), /^fail: /)
    assert.match(
      textOf(await run('status')),
      /^Old events +purged after 30 d, 1 d 6 h behind; last not yet$/m,
    )

    const store = createPostgresStore(database.url)
    await store.deliveries.continuePurge({ eventsAfterMs: 31 * 24 * 3_600_000, limit: 10, share: 0.5 })
    await publish(sql, 'org_1')
    const { message } = await diagnose('retention')
    assert.match(message, /^events are kept for 31 d; the purge last succeeded \d.* ago$/)
    await store.deliveries.continuePurge({ eventsAfterMs: 1000 * 365 * 86_400_000, limit: 10, share: 0.5 })
    assert.equal((await diagnose('retention')).message, 'events are kept forever')
    assert.match(textOf(await run('status')), /^Old events +kept forever$/m)
    await sql`delete from business_api.purge_progress`
    assert.equal((await diagnose('retention')).message, 'the state of the purge is unknown')
    await sql`insert into business_api.purge_progress default values`
    await store.close()
  })
})

describe('secrets', () => {
  afterEach(() => sql`truncate business_api.webhook_endpoints`)

  const add = ['endpoints', 'add', '--organization', 'org_1', '--url', 'http://127.0.0.1:4000/']
  const development = ['--allow-http', '--allow-private-networks']
  const otherKey = Buffer.alloc(32, 9).fill(1, 31).toString('hex')
  const doctorWith = (keys: string) =>
    cliOn(database.url, { env: { BUSINESS_API_SECRET_KEYS: keys } })('doctor', '--json')

  test("fail if the given keys can't open them", async () => {
    await run(...add, ...development)
    assert.match((await diagnose('secrets')).message, /^all 1 can be opened$/)
    for (const keys of ['', otherKey]) {
      const { level, message } = await diagnose('secrets', doctorWith(keys))
      assert.deepEqual([level, message], ['fail', '1 of 1 cannot be opened: their deliveries stay pending'])
    }
    assert.equal((await diagnose('secrets', doctorWith(`${otherKey}, ${SECRET_KEY}`))).level, 'ok')
  })

  test("fail if the headers can't be opened, even if the signing secret can", async () => {
    await run(...add, ...development, '--header', 'X-Team: 7')
    assert.match((await diagnose('secrets')).message, /^all 2 can be opened$/)
    await sql`update business_api.webhook_endpoints set header_names = '{X-Other}'`
    const { level, message } = await diagnose('secrets')
    assert.deepEqual([level, message], ['fail', '1 of 2 cannot be opened: their deliveries stay pending'])
  })

  test('fail if moved to another endpoint', async () => {
    await run(...add, ...development)
    await sql`update business_api.webhook_endpoints set organization_id = 'org_2'`
    assert.equal((await diagnose('secrets')).level, 'fail')
  })

  test('fail if stored as plain text although there are keys, and warn without keys', async () => {
    assert.match((await diagnose('secrets', doctorWith(''))).message, /^there is no sealing key/)
    const { secret } = jsonOf(
      await cli([...add, ...development, '--allow-plaintext-secrets', '--json'], {
        env: { DATABASE_URL: database.url },
      }),
    )
    const { level, message } = await diagnose('secrets')
    assert.deepEqual(
      [level, message],
      ['fail', '1 of 1 are stored unsealed although there are keys: their deliveries stay pending'],
    )
    const keyless = await diagnose('secrets', doctorWith(''))
    assert.deepEqual([keyless.level, keyless.message], ['warn', '1 of 1 are stored unsealed'])
    const { stdout, stderr } = await run('doctor')
    assert.ok(!(stdout + stderr).includes(secret))
  })
})

describe('problems of other servers', () => {
  const server = {
    version: '18.0',
    versionNumber: 180_000,
    encoding: 'UTF8',
    database: 'app',
    clockAheadMs: 0,
    clockErrorMs: 1,
  }

  test('PostgreSQL before 14 is too old', () => {
    assert.equal(checkVersion({ ...server, version: '13.9', versionNumber: 130_009 }).level, 'fail')
    assert.equal(checkVersion({ ...server, versionNumber: 140_000 }).level, 'ok')
  })

  test("a database without UTF-8 can't store the strings", () => {
    const { level, message, advice } = checkVersion({ ...server, encoding: 'LATIN1' })
    assert.deepEqual(
      [level, message, advice],
      [
        'fail',
        'the encoding of the database is LATIN1, which cannot hold every text',
        "create a database with UTF-8: create database app template template0 encoding 'UTF8'",
      ],
    )
  })

  test('clocks that differ by more than the network latency explains warn, then fail', () => {
    const levels = [500, -1900, 2500, -30_000, 61_500].map(
      (clockAheadMs) => checkClock({ ...server, clockAheadMs }).level,
    )
    assert.deepEqual(levels, ['ok', 'ok', 'warn', 'warn', 'fail'])
    assert.equal(checkClock({ ...server, clockAheadMs: 2500, clockErrorMs: 1000 }).level, 'ok')
    const { message } = checkClock({ ...server, clockAheadMs: -61_500 })
    assert.equal(message, "the database's clock is 1 min behind this machine's")
  })
})
