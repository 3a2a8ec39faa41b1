import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, type Result } from './_cli.ts'
import { addEndpoint, newOrganization } from './_settings.ts'

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

/** Counts attempts like the results of a loop do. */
async function count(
  org: string,
  endpointId: string,
  attempts: number,
  outcome: string,
  status: number,
): Promise<void> {
  await sql`
    select business_api.count_activity(array_agg(row(
      ${org}::text, ${endpointId}::text, ${outcome}::text, now(), 20, ${status}::int, null
    )::business_api.ended_attempt))
    from generate_series(1, ${attempts}::int) as number`
}

test('activity shows totals, bars over time and endpoints with problems first', async () => {
  const org = newOrganization()
  const [good, bad] = [await addEndpoint(run, org), await addEndpoint(run, org)]
  await count(org, good.id, 999, 'delivered', 200)
  await count(org, bad.id, 1, 'failed', 500)
  const { stdout, stderr, exitCode } = await run('activity', '--organization', org)
  assert.deepEqual([exitCode, stderr], [0, ''])
  assert.match(stdout, /^Period +\d{4}-\d\d-\d\d \d\d:00:00Z to \d{4}-\d\d-\d\d \d\d:00:00Z, by hour\n/)
  assert.match(stdout, /^Delivered +999, 99.9 %\nFailed +1\nAttempts +1,000, 999 2xx, 1 5xx\n/m)
  assert.match(stdout, /^Response time +p50 about 24 ms, p95 about 31 ms\n/m)
  assert.match(stdout, /^Delivered over time +·{23}█\nFailed over time +·{23}█\n/m)
  assert.match(stdout, /^ENDPOINT +STATE +DELIVERED +FAILED +ATTEMPTS +RESPONSE TIME +URL\n/m)
  const place = (id: string): number => stdout.indexOf(`\n${id} `)
  assert.ok(place(bad.id) > 0 && place(bad.id) < place(good.id), stdout)

  const { totals, series, interval } = jsonOf(
    await run('activity', '-o', org, '--endpoint', bad.id, '--since', '10d', '--json'),
  )
  assert.deepEqual([totals.delivered, totals.failed, totals.attempts, interval], [0, 1, 1, 'day'])
  assert.equal(series.at(-1).failed, 1)
})

test('activity shows zeros without deliveries, and rejects a period that is no longer kept', async () => {
  const org = newOrganization()
  const { stdout } = await run('activity', '--organization', org)
  assert.match(stdout, /^Delivered +0\nFailed +0\nAttempts +0\n/m)
  assertFailed(await run('activity', '-o', org, '--since', '90d'), 2, /within the last 35 days/)
  assertFailed(
    await run('activity', '-o', org, '--interval', 'week'),
    2,
    /--interval must be one of hour, day/,
  )
})
