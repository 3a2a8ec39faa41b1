import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createEmptyDatabase } from '../_database.ts'
import { alter, live, SETTINGS } from './_life.ts'

// A whole life in databases whose settings are otherwise: as `alter database` or `alter role` may have left them, in sessions of the
// store's own and behind a pooler in transaction mode, where the store can set nothing.

for (const sessions of [true, false])
  describe(sessions ? 'in sessions of its own' : 'behind a pooler in transaction mode', () => {
    for (const [name, value] of SETTINGS)
      test(`a life with ${name} = ${value}`, async (context) => {
        const database = await createEmptyDatabase()
        context.after(() => database.drop())
        await alter(database.url, name, value)
        await live(database.url, { sessions })
      })
  })

test('default_transaction_read_only = on: migrate works, and a write says what is wrong', async (context) => {
  const database = await createEmptyDatabase()
  context.after(() => database.drop())
  await alter(database.url, 'default_transaction_read_only', 'on')
  await migrate(database.url, { logger: false })
  await using store = createPostgresStore(database.url)
  await assert.rejects(store.apiKeys.markUsed('org_a', 'key_a'), {
    code: 'store_unavailable',
    message: /read-only: is it a standby, or is default_transaction_read_only set\?$/,
  })
})
