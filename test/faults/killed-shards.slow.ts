// The storm of killed connections on three shards at once, each with an organization that calls, without and behind a pooler.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestShards, NAMES, organizationOn } from '../store/_shards.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { startHost } from './_host.ts'
import { POOLERS } from './_poolers.ts'
import { assertAnswers, assertRecords, describeStorm, runStorm } from './_storm.ts'

const STORM = { kills: 150, callers: 8, pauseMs: 60, timeoutMs: 60_000 }

for (const [way, pooler] of [['connections of the store', null], ...Object.entries(POOLERS)] as const) {
  const name = `a storm of killed connections on three shards leaves nothing behind: ${way}`
  test(name, pooler?.needs ?? {}, async (t) => {
    const shards = await createTestShards()
    t.after(() => shards.drop())
    const pooled = await pooler?.start(shards.databases, 10)
    t.after(() => pooled?.close())
    const urls = pooled?.urls ?? shards.databases.map(({ url }) => url)
    const host = await startHost({
      databaseUrl: '',
      shards: Object.fromEntries(NAMES.map((name, index) => [name, urls[index] ?? ''])),
      pool: 'own',
      store: pooler?.options ?? {},
      api: { rateLimit: UNREACHED_RATE_LIMIT },
    })
    t.after(() => host.stop())

    const storms = NAMES.map(async (name, index) => {
      const { key } = await makeApiKey(shards.databases[index]?.url ?? '', organizationOn(name))
      const caller = createCaller(host.port, key)
      t.after(() => caller.close())
      const sql = shards.sqlOf(organizationOn(name))
      const storm = await runStorm(sql, caller, STORM)
      t.diagnostic(`${name}: ${describeStorm(storm)}`)
      return { sql, storm }
    })
    for (const { sql, storm } of await Promise.all(storms)) {
      assert.ok(storm.kills >= STORM.kills, `only ${storm.kills} connections were killed`)
      assertAnswers(storm)
      await assertRecords(sql, storm)
    }
    host.assertUnharmed()
  })
}
