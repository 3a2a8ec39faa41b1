// The storm of test/faults/killed-connections.more.ts for longer: a minute or two in all.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { idPrefixAt } from '../../lib/base/ids.ts'
import { createTestDatabase } from '../_database.ts'
import { makeDay } from '../_days.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { startHost } from './_host.ts'
import { startPgBouncer, WITH_PGBOUNCER } from './_pgbouncer.ts'
import { assertAnswers, assertRecords, describeStorm, runStorm } from './_storm.ts'

const STORM = { kills: 700, callers: 24, pauseMs: 60, timeoutMs: 60_000 }
const MAX_CONNECTIONS = 10

const WAYS = [
  { way: "pool 'own'", pool: 'own', store: {}, needs: {} },
  { way: "pool 'host'", pool: 'host', store: {}, needs: {} },
  { way: "pool 'unprepared'", pool: 'unprepared', store: {}, needs: {} },
  { way: 'PgBouncer', pool: 'own', store: { sessions: false, prepare: false }, needs: WITH_PGBOUNCER },
] as const

for (const { way, pool, store, needs } of WAYS) {
  test(`a long storm of killed connections leaves nothing behind: ${way}`, needs, async (t) => {
    const database = await createTestDatabase()
    t.after(() => database.drop())
    const sql = database.sql({ max: 1 })
    const { key } = await makeApiKey(database.url, 'org_storm')
    const pooler = way === 'PgBouncer' ? await startPgBouncer(database, MAX_CONNECTIONS) : null
    t.after(() => pooler?.close())
    const host = await startHost({
      databaseUrl: pooler?.url ?? database.url,
      pool,
      store,
      api: { rateLimit: UNREACHED_RATE_LIMIT },
    })
    t.after(() => host.stop())
    const caller = createCaller(host.port, key)
    t.after(() => caller.close())

    const storming = runStorm(sql, caller, STORM)
    const days = await turnDays(sql, storming)
    const storm = await storming

    t.diagnostic(`${describeStorm(storm)}; ${days} days made and dropped`)
    assert.ok(days >= 10, `only ${days} days were made and dropped meanwhile`)
    host.assertUnharmed()
    assert.ok(storm.kills >= STORM.kills, `only ${storm.kills} connections were killed`)
    assertAnswers(storm)
    await assertRecords(sql, storm)

    const countConnections = async (): Promise<number> => {
      const [row] = await sql`
        select count(*)::int as count from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
      return row?.count
    }
    await until('no connection is left over', async () => (await countConnections()) <= MAX_CONNECTIONS, 8000)
    const calm = await Promise.all(
      Array.from({ length: 100 }, () => caller.send({ method: 'GET', path: '/api/v1/clients' })),
    )
    assert.deepEqual(new Set(calm.map(({ status }) => status)), new Set([200]))
    const slowestMs = Math.max(...calm.map(({ ms }) => ms))
    t.diagnostic(
      `${await countConnections()} connections, slowest of 100 lists afterwards ${Math.round(slowestMs)} ms`,
    )
    assert.ok(slowestMs < 2000, `a list took ${slowestMs} ms after the storm`)
  })
}

/** Makes old days with an event each, and drops them as a loop's retention does, for as long as a storm goes on. */
async function turnDays(sql: Sql, storm: Promise<unknown>): Promise<number> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  storm.then(over, over)
  let dropped = 0
  for (let age = 40; !isOver; age++) {
    const at = new Date(Date.now() - age * 86_400_000)
    await makeDay(sql, at)
    await sql`
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      values ('org_storm', ${`evt_old_${age}`}, 'project.completed', '{}', ${`${idPrefixAt('dlv', at.getTime())}00000000001`})`
    for (let part = 0; part < 20 && !isOver; part++) {
      const [purge] =
        await sql`select business_api.continue_purge(${30 * 86_400_000}::float8, 1000, 1)::text as answer`
      const { days } = JSON.parse(purge?.answer)
      dropped += days
      if (days > 0) break
      await sleep(20)
    }
  }
  return dropped
}
