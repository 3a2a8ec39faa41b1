import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../_database.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { startHost } from './_host.ts'
import { assertAnswers, assertRecords, describeStorm, runStorm } from './_storm.ts'

const STORM = { kills: 100, callers: 24, pauseMs: 50, timeoutMs: 15_000 }

for (const pool of ['own', 'host', 'unprepared'] as const) {
  test(`killing connections at random loses, doubles and hangs nothing: pool '${pool}'`, async (t) => {
    const database = await createTestDatabase()
    t.after(() => database.drop())
    const sql = database.sql({ max: 1 })
    const { key } = await makeApiKey(database.url, 'org_storm')
    const host = await startHost({
      databaseUrl: database.url,
      pool,
      api: { rateLimit: UNREACHED_RATE_LIMIT },
    })
    t.after(() => host.stop())
    const caller = createCaller(host.port, key)
    t.after(() => caller.close())

    const storm = await runStorm(sql, caller, STORM)

    t.diagnostic(describeStorm(storm))
    host.assertUnharmed()
    assert.ok(storm.kills >= STORM.kills, `only ${storm.kills} connections were killed`)
    assertAnswers(storm)
    await assertRecords(sql, storm)
  })
}
