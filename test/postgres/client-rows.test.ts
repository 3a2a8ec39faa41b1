import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { CLIENT_ROWS } from '../../lib/postgres/clients.ts'
import { defineList } from '../../lib/postgres/statements/list.ts'
import { arrayOf, type FixedStatement, type Value } from '../../lib/postgres/statements/statement.ts'
import type { PostgresPlatform, PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { useDatabase } from '../_use-database.ts'
import { untilWaiting } from '../_waiting.ts'
import { clientsOf, createMirror } from './_sync.ts'

// A client and its business share a row, so a list shows changes of the business immediately, whoever makes them, and
// reads one index entry and one row per client.

const LIMIT = 50

let sql: Sql
let store: PostgresStore
let platform: PostgresPlatform
let org = ''
let keyDigest = ''
let organizations = 0
useDatabase((used) => {
  ;({ sql, store } = used)
  platform = createPlatform(store)
}, 4)

async function newOrganization(): Promise<string> {
  org = `org_rows_${++organizations}`
  const { apiKeys } = createDeveloperSettings(store)
  const { key } = await apiKeys.create(org, { name: 'Lists', scopes: ['clients:read'] })
  keyDigest = digestApiKey(key)
  return org
}

const setName = (tx: Pick<Sql, 'unsafe'>, businessId: string, name: string) =>
  tx.unsafe('update business_api.businesses set name = $3 where organization_id = $1 and id = $2', [
    org,
    businessId,
    name,
  ])

/** Returns the names of the businesses, from the list of the latest clients and from the list of all changes. */
async function readNames(): Promise<readonly string[]> {
  const request = { keyDigest, scope: 'clients:read', rateLimits: null } as const
  const { page } = await store.clients.admitAndList(request, { limit: LIMIT })
  const newest: { business: { name: string } }[] = JSON.parse(String(page))
  const mirror = await createMirror(store, org)
  await mirror.sync()
  assert.deepEqual(mirror.records, await clientsOf(sql, org))
  assert.equal(mirror.records.size, newest.length)
  return newest.map(({ business }) => business.name)
}

test('A list of clients shows changes made with SQL immediately', async () => {
  const { business } = await platform.clients.create(await newOrganization(), { name: 'Atlas' })
  await setName(sql, business.id, 'Atlas "Ltd"')
  assert.deepEqual(await readNames(), ['Atlas "Ltd"'])
})

/** The ways a business becomes a client. */
const WRITERS: Readonly<Record<string, (on: Platform, businessId: string) => Promise<unknown>>> = {
  async 'leads.convert()'(on, businessId) {
    const { id: leadId } = await platform.leads.create(org, { businessId })
    await on.leads.convert(org, { leadId })
  },
  'import()': (on, businessId) =>
    on.import(org, [
      {
        kind: 'client',
        record: { id: 'cli_1', businessId, status: 'active', convertedAt: '2019-03-14T09:26:53.589Z' },
      },
    ]),
}

const CHANGES: Readonly<Record<string, (tx: TransactionSql, businessId: string) => Promise<unknown>>> = {
  'businesses.update()': (tx, businessId) =>
    platform.using(tx).businesses.update(org, { businessId, name: 'Changed' }),
  'a change by SQL': (tx, businessId) => setName(tx, businessId, 'Changed'),
}

describe("A business that becomes a client while it's being changed is listed with the change", () => {
  for (const [writer, write] of Object.entries(WRITERS)) {
    for (const [changeName, change] of Object.entries(CHANGES)) {
      test(`${writer} waits for ${changeName}`, async () => {
        const { id } = await platform.businesses.create(await newOrganization(), { name: 'Atlas' })
        let written: Promise<unknown> = Promise.resolve()
        await sql.begin(async (tx) => {
          await change(tx, id)
          written = write(platform, id)
          await untilWaiting(sql)
        })
        await written
        assert.deepEqual(await readNames(), ['Changed'])
      })

      test(`${changeName} waits for ${writer}`, async () => {
        const { id } = await platform.businesses.create(await newOrganization(), { name: 'Atlas' })
        let changed: Promise<unknown> = Promise.resolve()
        await sql.begin(async (tx) => {
          await write(platform.using(tx), id)
          changed = sql.begin((other) => change(other, id))
          await untilWaiting(sql)
        })
        await changed
        assert.deepEqual(await readNames(), ['Changed'])
      })
    }
  }
})

test('two leads of a business that are won at the same time make one client, which the second call returns', async () => {
  const { id: businessId } = await platform.businesses.create(await newOrganization(), { name: 'Atlas' })
  const [one, two] = [
    await platform.leads.create(org, { businessId }),
    await platform.leads.create(org, { businessId }),
  ]
  let second: ReturnType<typeof platform.leads.convert> | undefined
  const first = await sql.begin(async (tx) => {
    const won = await platform.using(tx).leads.convert(org, { leadId: one.id })
    second = platform.leads.convert(org, { leadId: two.id })
    await untilWaiting(sql)
    return won
  })
  assert.deepEqual((await second)?.client, first.client)
  const made = await sql`
    select 1 from business_api.events where organization_id = ${org} and type = 'client.created'`
  assert.equal(made.length, 1)
})

// --- Rows read ---

const STATEMENTS = defineList('business_api.businesses', CLIENT_ROWS)

type AnyStatement = Pick<FixedStatement<unknown, string>, 'text'> &
  Record<'parameters' | 'columns', readonly string[]>

/** All lists with the values of a page. */
const LISTS: Readonly<Record<string, readonly [AnyStatement, Record<string, Value>]>> = {
  newest: [STATEMENTS.newest, {}],
  older: [STATEMENTS.older, { before: 'cli_000001000' }],
  'by transaction': [STATEMENTS.changes, { xid: '0', id: '', floor: null, ceiling: null }],
  'by time': [
    STATEMENTS.times,
    { time: '2020-01-01T00:00:00.000Z', id: '', floor: null, tableIdentity: null },
  ],
}

/**
 * Returns how many rows and index entries of businesses this transaction has read, and how often it scanned
 * the whole table.
 */
async function readCounters(tx: TransactionSql): Promise<{ readonly rows: number; readonly scans: number }> {
  const [counters] = await tx<{ rows: number; scans: number }[]>`
    select
      (pg_stat_get_xact_tuples_returned('business_api.businesses'::regclass) + (
        select sum(pg_stat_get_xact_tuples_returned(indexrelid)) from pg_index
        where indrelid = 'business_api.businesses'::regclass
      ))::int as rows,
      pg_stat_get_xact_numscans('business_api.businesses'::regclass)::int as scans`
  assert.ok(counters)
  return counters
}

/** Asserts that every list reads one index entry per client, with every kind of plan. */
async function assertReadings(): Promise<void> {
  for (const [name, [{ text, parameters, columns }, values]] of Object.entries(LISTS)) {
    for (const mode of ['force_custom_plan', 'force_generic_plan']) {
      await sql.begin(async (tx) => {
        await tx`select set_config('plan_cache_mode', ${mode}, true)`
        const [identity] = await tx`select business_api.table_identity('business_api.businesses') as name`
        const all: Record<string, Value> = {
          organizationId: org,
          limit: LIMIT,
          tableIdentity: identity?.name,
          ...values,
        }
        const bound = parameters.map((parameter) => arrayOf([all[parameter] ?? null]))
        const run = () => tx.unsafe(text, [...bound, ''], { prepare: true }).values()
        // The first run includes reads by the planner.
        await run()
        const begun = await readCounters(tx)
        const [answer] = await run()
        const done = await readCounters(tx)
        const about = `${name}, ${mode}: ${done.rows - begun.rows} rows`
        assert.equal(JSON.parse(String(answer?.[columns.indexOf('page')])).length, LIMIT, about)
        assert.equal(done.scans, begun.scans, about)
        // The page, and the query for one more client.
        assert.ok(done.rows - begun.rows <= 2 * (LIMIT + 1), about)
      })
    }
  }
}

test('A list of clients reads one row per client, with and without table statistics, next to the same number of other businesses', async () => {
  await newOrganization()
  await sql`alter table business_api.businesses set (autovacuum_enabled = false)`
  await sql`
    insert into business_api.businesses
      (organization_id, id, name, client_id, client_status, total_revenue, monthly_revenue, converted_at)
    select ${org}, 'biz_' || lpad(n::text, 9, '0'), 'Atlas', 'cli_' || lpad(n::text, 9, '0'), 'active', 0, 0, now()
    from generate_series(1, 3000) as n`
  await sql`
    insert into business_api.businesses (organization_id, id, name)
    select ${org}, 'biz_1' || lpad(n::text, 9, '0'), 'Byrsa' from generate_series(1, 3000) as n`
  await assertReadings()
  await sql`vacuum analyze business_api.businesses`
  await assertReadings()
})
