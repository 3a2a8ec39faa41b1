// The kills of test/faults/killed-deliverers.more.ts for longer: about two minutes.

import { test } from 'node:test'
import { assertSurvivesKills } from './_killing.ts'

const KILLING = { events: 20_000, kills: 30, publishEveryMs: 10, killEveryMs: 500, leaseMs: 2000 }

test('deliverers killed at random while 20,000 events are published lose none of them', async (t) => {
  // Printed and not a diagnostic, because not every reporter shows diagnostics and this test is run for the numbers.
  console.log(await assertSurvivesKills(t, KILLING))
})
