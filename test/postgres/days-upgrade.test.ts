import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import type { Sql } from 'postgres'
import { type RoleOfPart, writeGrants } from '../../lib/postgres/schema/grants.ts'
import { migrate, migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { makeDay } from '../_days.ts'
import { dumpSchema } from '../_schema-dump.ts'

// An installation with data moves to days while the processes of the previous version go on, under least privileged roles.

const ORGANIZATION = 'org_upgraded'
const DAY_MS = 86_400_000

/** The migrations up to a number, as an installation of 0023 applies them. */
async function textsUpTo(number: number): Promise<Record<string, string>> {
  const packed = await readFile(join(import.meta.dirname, '..', 'faults', '_baseline.json.gz'))
  const later = Object.entries(readMigrationTexts()).filter(([name]) => {
    return Number(name.slice(0, 4)) > 23 && Number(name.slice(0, 4)) <= number
  })
  return { ...JSON.parse(gunzipSync(packed).toString()), ...Object.fromEntries(later) }
}

const LATEST = Object.keys(readMigrationTexts()).length

/** Grants of the parts, without the tables and functions that the database does not have yet. */
async function grantAsBefore(sql: Sql, roles: readonly RoleOfPart[]): Promise<void> {
  const rows = await sql<{ name: string }[]>`
    select proname::text as name from pg_proc where pronamespace = 'business_api'::regnamespace
    union select relname::text from pg_class where relnamespace = 'business_api'::regnamespace`
  const known = new Set(rows.map(({ name }) => name))
  for (const statement of writeGrants(roles)) {
    const [, table] = / on business_api\.(\w+) to /.exec(statement) ?? []
    if (table !== undefined && !known.has(table)) continue
    const [, functions] = /^grant execute on function (.+) to /.exec(statement) ?? []
    const kept = functions?.split(/, (?=business_api\.)/).filter((name) => {
      // The fifth argument of publish_event came later.
      return known.has(name.replace(/business_api\.|\(.*/g, '')) && !name.includes('jsonb, text, text')
    })
    await sql.unsafe(
      functions === undefined ? statement : statement.replace(functions, kept?.join(', ') ?? ''),
    )
  }
}

/** Processes of the previous version: they publish, claim, write results and purge, until told to stop. */
function startOldProcesses(publisher: Sql, store: PostgresStore) {
  const state = { isOver: false, published: 0, delivered: 0, errors: [] as unknown[], slowestMs: 0 }
  async function repeat(work: (round: number) => Promise<void>): Promise<void> {
    for (let round = 0; !state.isOver; round++) {
      const begunAt = performance.now()
      await work(round).catch((error) => state.errors.push(error))
      state.slowestMs = Math.max(state.slowestMs, performance.now() - begunAt)
      await sleep(5)
    }
  }
  const loops = [
    repeat(async (round) => {
      const id = round % 2 === 0 ? `evt_of-the-host-${round}` : null
      await publisher`
        select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{"n":1}'::jsonb, ${id}::text)`
      state.published++
    }),
    // Transactions of the host, which overlap; one of two is rolled back.
    ...[0, 1].map((place) =>
      repeat(async (round) => {
        const undone = new Error('rolled back')
        const working = publisher.begin(async (tx) => {
          await tx`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb, ${`evt_tx-${place}-${round}`})`
          await sleep(Math.random() * 120)
          await tx`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb)`
          if (round % 2 === 1) throw undone
        })
        await working.then(
          () => {
            state.published += 2
          },
          (error) => {
            if (error !== undone) throw error
          },
        )
      }),
    ),
    repeat(async (round) => {
      const token = `old_${round}`
      const { deliveries } = await store.deliveries.claim({
        token,
        isRepeat: false,
        limit: 20,
        maxBytes: 1_000_000,
        capacity: { endpoint: 20, organization: 20, endpoints: {}, organizations: {} },
        scanLimit: 10,
        cursor: null,
        leaseMs: 60_000,
        maxAttempts: 5,
      })
      const { lost } = await store.deliveries.writeResults(
        deliveries.map(({ id }) => ({
          ...{ organizationId: ORGANIZATION, deliveryId: id, token, outcome: 'delivered' as const },
          ...{ reason: null, isGone: false, delayMs: 0, startedAgoMs: 2, endedAgoMs: 1, durationMs: 1 },
          ...{ dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null, status: 200, error: null },
          bodyExcerpt: 'ok',
        })),
        { failures: 50, failingMs: 1000 },
      )
      assert.deepEqual(lost, [])
      state.delivered += deliveries.length
    }),
    repeat(async () => {
      await store.deliveries.continuePurge({ eventsAfterMs: 30 * DAY_MS, limit: 100, share: 1 })
    }),
  ]
  return {
    state,
    async stop() {
      state.isOver = true
      await Promise.all(loops)
    },
  }
}

async function countRows(sql: Sql): Promise<Record<string, number>> {
  const [row] = await sql`
    select
      (select count(*)::int from business_api.events) as events,
      (select count(distinct id)::int from business_api.events) as ids,
      (select count(*)::int from business_api.open_deliveries) + (select count(*)::int from business_api.finished_deliveries)
        as deliveries,
      (select count(*)::int from business_api.finished_deliveries) as finished,
      (select count(*)::int from business_api.delivery_attempts) as attempts`
  return { ...row }
}

/** Describes a table of a day as the catalogues do, without names. */
async function describeTable(sql: Sql, name: string): Promise<readonly string[]> {
  const rows = await sql<{ fact: string }[]>`
    with day as (select * from pg_class where oid = ${`business_api.${name}`}::regclass)
    select concat_ws(
      ' ', 'table', relowner, reloptions, relpersistence, relreplident, relrowsecurity, relforcerowsecurity, reltablespace,
      relam, relhastriggers
    ) as fact from day
    union all
    select concat_ws(
      ' ', 'column', attnum, attname, format_type(atttypid, atttypmod), attcollation, attnotnull, attstorage, attcompression,
      attidentity, attgenerated, attoptions, attstattarget, pg_get_expr(adbin, adrelid)
    )
    from day join pg_attribute on attrelid = day.oid and attnum > 0
    left join pg_attrdef on adrelid = attrelid and adnum = attnum
    union all
    select concat_ws(' ', 'constraint', pg_get_constraintdef(c.oid), c.convalidated)
    from day join pg_constraint c on conrelid = day.oid
    union all
    select concat_ws(
      ' ', 'index', regexp_replace(pg_get_indexdef(indexrelid), '^(.*) INDEX .* USING', '\\1'), indisprimary, indisvalid,
      inhparent::regclass
    )
    from day join pg_index on indrelid = day.oid
    join pg_inherits on inhrelid = indexrelid
    union all
    select concat_ws(' ', 'statistics', stxkind) from day join pg_statistic_ext on stxrelid = day.oid
    order by 1`
  return rows.map(({ fact }) => fact)
}

async function createRole(database: TestDatabase, sql: Sql) {
  const role = `business_api_old_${randomUUID()}`
  await sql`create role ${sql(role)}`
  await grantAsBefore(sql, [
    { part: 'worker', role },
    { part: 'publisher', role },
  ])
  return {
    name: role,
    pool: database.sql({ max: 4, connection: { role } }),
    drop: async () => void (await sql.unsafe(`drop owned by "${role}"; drop role "${role}"`)),
  }
}

test('an installation with data moves to days file by file, while old processes publish, deliver and purge', async (t) => {
  const database = await createEmptyDatabase()
  const closing: (() => Promise<void>)[] = [() => database.drop()]
  t.after(async () => {
    for (const close of closing) await close()
  })
  const sql = database.sql({ max: 2 })
  assert.equal((await migrateFrom(sql, await textsUpTo(23))).current, 23)
  await sql`
    insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
    values (${ORGANIZATION}, 'we_1', 'https://hooks.example/', 'enabled', now(), 'plain.whsec_test')`
  await sql.unsafe(`
    alter table business_api.events enable row level security;
    create policy everything on business_api.events for all to public using (organization_id <> 'org_hidden') with check (true)`)
  const old = await createRole(database, sql)
  const store = createPostgresStore(old.pool)
  closing.unshift(() => store.close(), old.drop)
  const processes = startOldProcesses(old.pool, store)
  try {
    for (let number = 24; number <= LATEST; number++) {
      await sleep(150)
      const texts = await textsUpTo(number)
      // Stopped: the same file is tried while a transaction is in the way, then again.
      await sql.begin(async (tx) => {
        await tx`select 1 from business_api.events, business_api.finished_deliveries, business_api.delivery_attempts limit 1`
        const done = await migrateFrom(sql, texts, { timeoutMs: 0 }).catch((error) => error)
        assert.ok(done.code === undefined || done.code === 'store_unavailable', String(done))
      })
      assert.equal((await migrateFrom(sql, texts)).current, number)
      const { published } = processes.state
      for (let wait = 0; processes.state.published < published + 3 && wait < 100; wait++) await sleep(20)
      assert.ok(processes.state.published >= published + 3, `nothing is published after file ${number}`)
    }
    await sleep(300)
  } finally {
    await processes.stop()
  }
  const { errors, published, delivered } = processes.state
  assert.deepEqual(errors, [])
  const rows = await countRows(sql)
  assert.deepEqual([rows.events, rows.ids, rows.deliveries], [published, published, published])
  assert.deepEqual([rows.finished, rows.attempts], [delivered, delivered])
  assert.ok(delivered > 20, `${delivered} were delivered`)

  // The ids of a host are known, whether the event was published before or after.
  for (const id of ['evt_of-the-host-0', 'evt_of-the-host-2']) {
    await old.pool`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb, ${id})`
  }
  assert.equal((await countRows(sql)).events, published)

  const [first] = await sql`
    select name, ends_at > now() + interval '29 days' as is_ahead from business_api.event_days order by begins limit 1`
  assert.deepEqual({ ...first }, { name: 'first', is_ahead: true })
  const policies = await sql`
    select tablename from pg_policies where schemaname = 'business_api' and policyname = 'everything' order by 1`
  assert.deepEqual(
    policies.map(({ tablename }) => tablename),
    ['events', 'events_first'],
  )
  const [parent] =
    await sql`select relrowsecurity as is_on from pg_class where oid = 'business_api.events'::regclass`
  assert.equal(parent?.is_on, true)

  // The tables of the first day are reached through the parents only, as those of a day that was made.
  const tables = await sql`
    select c.relname, c.relrowsecurity as is_secured,
      coalesce(array_agg(a.grantee) filter (where a.grantee <> c.relowner), '{}')::text as grantees
    from pg_class c left join lateral aclexplode(c.relacl) as a on true
    where c.relnamespace = 'business_api'::regnamespace and c.relname ~ '_first$' and c.relkind = 'r' group by c.oid order by 1`
  assert.deepEqual(
    tables.map(({ relname, is_secured, grantees }) => [relname, is_secured, grantees]),
    ['delivery_attempts_first', 'events_first', 'finished_deliveries_first'].map((name) => [
      name,
      true,
      '{}',
    ]),
  )

  // Everything but the names of indexes and the host's policies is as in a day that was made.
  const later = await makeDay(sql, new Date(Date.now() + 40 * DAY_MS))
  for (const parent of ['events', 'finished_deliveries', 'delivery_attempts']) {
    assert.deepEqual(
      await describeTable(sql, `${parent}_first`),
      await describeTable(sql, `${parent}_${later}`),
      parent,
    )
  }

  await sql.unsafe(
    'drop policy everything on business_api.events; alter table business_api.events disable row level security',
  )
  // As a fresh installation ends.
  const fresh = await createEmptyDatabase()
  closing.push(() => fresh.drop())
  await migrate(fresh.url)
  const freshSql = fresh.sql({ max: 1 })
  assert.equal(await dumpSchema(sql), await dumpSchema(freshSql))
})

test('the tables with data are attached without being read', async (t) => {
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  await migrateFrom(sql, await textsUpTo(23))
  await sql`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb)`
  await migrateFrom(sql, await textsUpTo(29))
  const messages: string[] = []
  const listening = database.sql({ max: 1, onnotice: ({ message }) => messages.push(message ?? '') })
  const text = readMigrationTexts()['0030-partitions.sql']
  assert.ok(text)
  await listening.begin(async (tx) => {
    await tx.unsafe(`set local client_min_messages = debug1; ${text}`)
  })
  const implied = messages.filter((message) => /is implied by existing constraints/.test(message))
  for (const table of ['events_first', 'finished_deliveries_first', 'delivery_attempts_first']) {
    assert.ok(
      implied.some((message) => message.includes(`"${table}"`)),
      `${table}: ${messages.join('\n')}`,
    )
  }
})
