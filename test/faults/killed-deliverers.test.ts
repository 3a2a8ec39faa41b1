import { test } from 'node:test'
import { assertSurvivesKills } from './_killing.ts'

test('deliverers killed at random: every event that was committed arrives, none that was rolled back', async (t) => {
  const tally = await assertSurvivesKills(t, {
    events: 1000,
    kills: 3,
    publishEveryMs: 30,
    killEveryMs: 250,
    leaseMs: 1000,
  })
  t.diagnostic(tally)
})
