import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { inTransaction } from '../../lib/postgres/connection/plain-transaction.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createEmptyDatabase()
  sql = database.sql({ max: 1 })
})
after(() => database.drop())

const MODE = 'read committed read write'

test('inTransaction() commits, and rolls back if the work fails', async () => {
  await inTransaction(database.url, MODE, (own) => own`create table kept ()`)
  const failure = new Error('no')
  await assert.rejects(
    inTransaction(database.url, MODE, async (own) => {
      await own`create table lost ()`
      throw failure
    }),
    failure,
  )
  assert.deepEqual(await tables(), ['kept'])
})

test("inTransaction() rejects if a statement failed, even if the work doesn't", async () => {
  const committed = inTransaction(database.url, MODE, async (own) => {
    await own`create table swallowed ()`
    await own`select 1 / 0`.catch(() => {})
  })
  await assert.rejects(committed, {
    message: 'Cannot commit the transaction because a statement in it failed',
  })
  assert.ok(!(await tables()).includes('swallowed'))
})

async function tables(): Promise<unknown[]> {
  const rows =
    await sql`select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`
  return rows.map(({ relname }) => relname)
}
