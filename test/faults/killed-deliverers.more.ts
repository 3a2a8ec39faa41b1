import { test } from 'node:test'
import { assertSurvivesKills } from './_killing.ts'

test('deliverers killed at random: every committed event arrives, and no event of a rolled back transaction', async (t) => {
  const tally = await assertSurvivesKills(t, {
    events: 1000,
    kills: 3,
    publishEveryMs: 30,
    killEveryMs: 250,
    leaseMs: 1000,
  })
  t.diagnostic(tally)
})
