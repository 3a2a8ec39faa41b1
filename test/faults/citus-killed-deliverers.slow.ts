// The kills of test/faults/killed-deliverers.test.ts on a cluster, for longer: about a minute.

import { test } from 'node:test'
import { createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { assertSurvivesKills } from './_killing.ts'

const KILLING = {
  events: 2500,
  kills: 15,
  deliverers: 3,
  publishEveryMs: 10,
  killEveryMs: 1500,
  leaseMs: 4000,
}

test(
  'on a cluster, deliverers killed at random lose no event, and never send one twice at once',
  WITH_CITUS,
  async (t) => {
    const database = await createCitusDatabase()
    t.after(() => database.drop())
    // Printed and not a diagnostic, because not every reporter shows diagnostics and this test is run for the numbers.
    console.log(await assertSurvivesKills(t, { ...KILLING, databaseUrl: database.url }))
  },
)
