import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { idPrefixAt } from '../../lib/base/ids.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { makeDay } from '../_days.ts'

// A day with a million deliveries is dropped at once without blocking publishers or readers. The locks are held for a
// few milliseconds, and the files (a gigabyte) are deleted after they have been released.

const DELIVERIES = 1_000_000
const DAY_MS = 86_400_000

let database: TestDatabase
let sql: Sql
let store: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 3, connection: { synchronous_commit: 'off' } })
  store = createPostgresStore(database.url)
})
after(async () => {
  await store.close()
  await database.drop()
})

test('a day with a million deliveries is dropped while others publish and read without waiting for files to be deleted', async (t) => {
  const at = new Date(Date.now() - 40 * DAY_MS)
  const name = await makeDay(sql, at)
  const prefix = idPrefixAt('dlv', at.getTime())
  await sql`
    insert into business_api.events (organization_id, id, type, body, delivery_prefix)
    select 'org_' || number % 100, 'evt_' || number, 'project.completed', repeat('x', 200),
           ${prefix} || lpad(number::text, 11, '0')
    from generate_series(1, ${DELIVERIES}::int) as number`
  await sql`
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts)
    select organization_id, delivery_prefix || '00001', id, type, 'we_1', 'delivered', ${at}, ${at}, 1
    from business_api.events`
  await sql`
    insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
    select organization_id, delivery_prefix || '00001', 1, ${at}, 1, 'ok' from business_api.events`
  await sql.unsafe(`vacuum analyze business_api.events_${name}`)

  let isOver = false
  const slowest = { publishMs: 0, listMs: 0 }
  const repeat = async (of: keyof typeof slowest, work: () => Promise<unknown>): Promise<void> => {
    await work()
    while (!isOver) {
      const begunAt = performance.now()
      await work()
      slowest[of] = Math.max(slowest[of], performance.now() - begunAt)
    }
  }
  const others = [
    repeat(
      'publishMs',
      () => sql`select business_api.publish_event('org_1', 'project.completed', '{}'::jsonb)`,
    ),
    repeat('listMs', () => store.deliveries.list('org_1', {}, 50, null)),
  ]
  // The first part in a session plans the statements of the purge.
  await store.deliveries.continuePurge({ eventsAfterMs: 50 * DAY_MS, limit: 1000, share: 1 })
  // Statements of the others may be in the way.
  let days = 0
  let dropMs = 0
  for (let tries = 0; days === 0 && tries < 20; tries++) {
    await sql`update business_api.event_days set checked_at = null`
    const begunAt = performance.now()
    const report = await store.deliveries.continuePurge({ eventsAfterMs: 30 * DAY_MS, limit: 1000, share: 1 })
    dropMs = performance.now() - begunAt
    days = report.days
    if (days > 0)
      assert.ok(Math.abs(report.events - DELIVERIES) < DELIVERIES / 100, `${report.events} events`)
  }
  isOver = true
  await Promise.all(others)
  t.diagnostic(
    `a day of ${DELIVERIES} deliveries dropped in ${dropMs.toFixed(0)} ms; meanwhile at most ` +
      `${slowest.publishMs.toFixed(0)} ms to publish, ${slowest.listMs.toFixed(0)} ms to list`,
  )
  assert.equal(days, 1)
  assert.ok(slowest.publishMs < 500 && slowest.listMs < 500, JSON.stringify(slowest))
  // This is mostly the file system.
  assert.ok(dropMs < 5000, `${dropMs} ms`)
})
