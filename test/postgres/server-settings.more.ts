import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import postgres from 'postgres'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createEmptyDatabase } from '../_database.ts'
import { startPgBouncer, WITH_PGBOUNCER } from '../faults/_pgbouncer.ts'
import { alter, live, SETTINGS } from './_life.ts'

// Runs everything on databases with different settings, configured with `alter database` or `alter role`, in the
// store's own sessions and behind a pooler in transaction mode, where the store can't set anything. versions.slow.ts
// does the other combinations.

for (const [sessions, of] of [
  [true, 'role'],
  [false, 'database'],
] as const)
  describe(`${sessions ? 'with separate sessions' : 'behind a pooler in transaction mode'}, with alter ${of}`, () => {
    for (const [name, value] of SETTINGS)
      test(`everything works with ${name} = ${value}`, async (context) => {
        const database = await createEmptyDatabase()
        context.after(() => database.drop())
        await alter(database.url, of, name, value)
        await live(database.url, { sessions })
      })
  })

describe("default_transaction_read_only = on: migrate works, and a write says what's wrong", () => {
  for (const of of ['database', 'role'] as const)
    for (const isPooled of [false, true])
      test(
        `alter ${of}, ${isPooled ? 'behind PgBouncer' : 'directly'}`,
        isPooled ? WITH_PGBOUNCER : {},
        async (t) => {
          const database = await createEmptyDatabase()
          t.after(() => database.drop())
          await alter(database.url, of, 'default_transaction_read_only', 'on')
          const pooler = isPooled ? await startPgBouncer(database, 4) : null
          t.after(() => pooler?.close())
          const url = pooler?.url ?? database.url
          const sql = postgres(url, { max: 1, prepare: false })
          const [row] = await sql`show default_transaction_read_only`
          await sql.end()
          assert.equal(row?.default_transaction_read_only, 'on')
          await migrate(url, { logger: false })
          await using store = createPostgresStore(url, isPooled ? { sessions: false, prepare: false } : {})
          await assert.rejects(store.apiKeys.markUsed('org_a', 'key_a'), {
            code: 'store_unavailable',
            message: /read-only: is it a standby, or is default_transaction_read_only set\?$/,
          })
        },
      )
})
