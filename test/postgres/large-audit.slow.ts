import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import type { AuditFilter } from '../../lib/access/audit.ts'
import { createAuditStore } from '../../lib/postgres/audit.ts'
import type { Database } from '../../lib/postgres/connection/database.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// How much the audit reads if an organization has a million entries. We don't measure times but pages of
// tables and indexes.

const ENTRIES = 1_000_000
const ORGANIZATION = 'org_large'
/** Entries are one second apart. The rare ones are the oldest, so a scan of the ids would find them last. */
const FIRST = Date.UTC(2026, 0, 1)
const at = (entry: number) => new Date(FIRST + entry * 1000).toISOString()

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  await sql`
    insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
    select
      ${ORGANIZATION}, 'aud_' || business_api_id.time || lpad(n::text, 16, '0'),
      ${at(0)}::text::timestamptz + n * interval '1 second',
      case when n < 100 then 'rare' when n % 2 = 0 then 'ada' else 'grace' end,
      case when n < 100 then 'api_key.revoked' when n % 2 = 0 then 'endpoint.paused' else 'endpoint.test_sent' end,
      'we_' || (n % 10), '{}'
    from generate_series(0, ${ENTRIES - 1}) n,
    lateral (
      select string_agg(
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + ((${FIRST}::bigint + n::bigint * 1000) >> (5 * digit) & 31)::int, 1),
        '' order by digit desc
      ) as time
      from generate_series(0, 9) digit
    ) as business_api_id`
  await sql`analyze business_api.audit_entries`
})
after(() => database.drop())

type PlanMode = 'force_custom_plan' | 'force_generic_plan'

/** The pages and rows that a statement of the audit reads. */
async function read(filter: AuditFilter, before: string | null, mode: PlanMode) {
  const rolledBack = new Error('rolled back')
  let pages = -1
  let rows = -1
  await sql
    .begin(async (tx) => {
      await tx`select set_config('plan_cache_mode', ${mode}, true)`
      const rowFor: Database['rowFor'] = async (_, build) => {
        // Twice, because the first time includes reads for planning.
        for (let turn = 0; turn < 2; turn++) {
          const [plan] = await tx`explain (analyze, buffers, format json) ${build(tx, tx`'x'::text`)}`
          const [{ Plan: top }] = plan?.['QUERY PLAN'] ?? []
          pages = top['Shared Hit Blocks'] + top['Shared Read Blocks']
        }
        const [answer] = await tx`${build(tx, tx`'x'::text`)}`.values()
        return answer as string[]
      }
      rows = (await createAuditStore({ rowFor } as Database).list(ORGANIZATION, filter, 51, before)).length
      throw rolledBack
    })
    .catch((error: unknown) => {
      if (error !== rolledBack) throw error
    })
  return { pages, rows }
}

/** A period also reads the entries up to AUDIT_ID_MARGIN_MS after its end. Here it's a day with 86,400 entries. */
const PAGES_MAX = 2500

const MIDDLE = at(ENTRIES / 2)
const FILTERS: readonly (readonly [name: string, filter: AuditFilter, rows: number])[] = [
  ['all', {}, 51],
  ['one subject', { subjectId: 'we_3' }, 51],
  ['a common action', { action: 'endpoint.paused' }, 51],
  ['a rare action', { action: 'api_key.revoked' }, 51],
  ['an action that never was', { action: 'events.purged' }, 0],
  ['a common actor', { actor: 'ada' }, 51],
  ['a rare actor', { actor: 'rare' }, 51],
  ['an actor that never was', { actor: 'nobody' }, 0],
  ['a rare actor and action', { actor: 'rare', action: 'api_key.revoked' }, 51],
  ['a rare action of a common actor', { actor: 'ada', action: 'api_key.revoked' }, 0],
  ['a common action of a rare actor', { actor: 'rare', action: 'endpoint.paused' }, 0],
  ['an hour in the middle', { since: MIDDLE, until: at(ENTRIES / 2 + 3600) }, 51],
  ['all before the middle', { until: MIDDLE }, 51],
  ['all since the middle', { since: MIDDLE }, 51],
  ['before everything', { until: at(-1) }, 0],
  ['an action before the middle', { until: MIDDLE, action: 'endpoint.paused' }, 51],
  ['a common actor in the hour', { since: MIDDLE, until: at(ENTRIES / 2 + 3600), actor: 'ada' }, 51],
  ['a rare actor since the middle', { since: MIDDLE, actor: 'rare' }, 0],
]

describe(`with ${ENTRIES} entries of an organization`, () => {
  for (const [name, filter, rows] of FILTERS) {
    test(`audit.list() of ${name} reads few pages`, async (t) => {
      for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
        const first = await read(filter, null, mode)
        const deep = await read(filter, 'aud_0', mode)
        t.diagnostic(
          `${mode}: ${first.pages} pages, ${first.rows} rows; behind everything ${deep.pages} pages`,
        )
        assert.equal(first.rows, rows)
        assert.ok(first.pages <= PAGES_MAX && deep.pages <= 100, `${mode} ${JSON.stringify([first, deep])}`)
      }
    })
  }

  test('audit.recordTest() reads few pages, whatever was tested before', async (t) => {
    const rowFor: Database['rowFor'] = async (_, build) => {
      const [plan] = await sql`explain (analyze, buffers, format json) ${build(sql, sql`'x'::text`)}`
      const [{ Plan: top }] = plan?.['QUERY PLAN'] ?? []
      const pages = top['Shared Hit Blocks'] + top['Shared Read Blocks']
      t.diagnostic(`${pages} pages`)
      assert.ok(pages < 600, String(pages))
      return ['true']
    }
    const store = createAuditStore({ rowFor } as Database)
    for (let tests = 0; tests < 12; tests++) {
      const entry = newEntry({ action: 'endpoint.test_sent' })
      await store.recordTest(ORGANIZATION, entry, { max: 10, windowMs: 60_000 })
    }
  })
})
