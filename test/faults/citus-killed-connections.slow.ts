// The storm of test/faults/killed-connections.test.ts on a cluster, where sessions of the coordinator and of the workers are killed:
// less than a minute.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres from 'postgres'
import { createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { startHost } from './_host.ts'
import { assertAnswers, assertRecords, describeStorm, runStorm } from './_storm.ts'

const STORM = { kills: 150, callers: 16, pauseMs: 100, timeoutMs: 60_000 }

test('on a cluster, killing sessions of any node loses, doubles and hangs nothing', WITH_CITUS, async (t) => {
  const database = await createCitusDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  const victims = database.nodes.map(({ url }) => postgres(url, { max: 1, onnotice: () => {} }))
  t.after(() => Promise.all(victims.map((victim) => victim.end({ timeout: 1 }))))
  const { key } = await makeApiKey(database.url, 'org_storm')
  const host = await startHost({
    databaseUrl: database.url,
    pool: 'own',
    api: { rateLimit: UNREACHED_RATE_LIMIT },
  })
  t.after(() => host.stop())
  const caller = createCaller(host.port, key)
  t.after(() => caller.close())

  const storm = await runStorm(sql, caller, { ...STORM, victims })

  console.log(describeStorm(storm))
  host.assertUnharmed()
  assert.ok(storm.kills >= STORM.kills, `only ${storm.kills} sessions were killed`)
  assertAnswers(storm)
  await assertRecords(sql, storm)
})
