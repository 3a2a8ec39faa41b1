import assert from 'node:assert/strict'
import { test } from 'node:test'
import '../../examples/bookings.ts'
import { createEmptyDatabase } from '../_database.ts'
import { startSource } from './_program.ts'

test('examples/bookings.ts makes a booking once, lists it, and its subscriber verifies the webhook', async (t) => {
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  const program = startSource(['examples/bookings.ts'], { DATABASE_URL: database.url })
  assert.equal(await program.exit, 0, program.stderr())
  assert.match(program.stdout(), /^Created: once\nListed: 1\nReceived: Atlas$/m)
})
