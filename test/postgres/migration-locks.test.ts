import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { STORE_UNAVAILABLE } from '../../lib/base/errors.ts'
import { mutedLogger } from '../../lib/base/log.ts'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'

// Migrations during traffic, which wait for locks.

const TABLE = { '0001-things.sql': 'create table business_api.things (id integer not null)' }
const COLUMN = { ...TABLE, '0002-note.sql': 'alter table business_api.things add column note text' }

let database: TestDatabase
let sql: Sql

beforeEach(async () => {
  database = await createEmptyDatabase()
  sql = database.sql()
  await migrateFrom(sql, TABLE)
})

afterEach(() => database.drop())

/** Opens a transaction that has read the table. It's kept open until the returned function is called. */
async function startReader(): Promise<{ end(): Promise<void> }> {
  const reader = await database.sql({ max: 1, connection: { application_name: 'a long report' } }).reserve()
  await reader.unsafe('begin isolation level repeatable read')
  await reader`select count(*) from business_api.things`
  return {
    async end() {
      await reader.unsafe('rollback')
      reader.release()
    },
  }
}

/** Collects the warnings of a run. */
function listener(): { readonly messages: string[]; readonly logger: typeof mutedLogger } {
  const messages: string[] = []
  return { messages, logger: { ...mutedLogger, warn: (_, message) => void messages.push(message) } }
}

async function hasColumn(): Promise<boolean> {
  const rows = await sql`
    select from pg_attribute where attrelid = 'business_api.things'::regclass and attname = 'note'`
  return rows.length === 1
}

describe('a migration waiting for a lock', () => {
  test('lets other sessions proceed, warns, and is applied after the blocking session has ended', async () => {
    const reader = await startReader()
    const { messages, logger } = listener()
    const migrating = migrateFrom(sql, COLUMN, { logger })
    const other = database.sql({ max: 1 })
    // A statement that waits behind the migration's lock would wait for the reader, which only ends
    // after the statement.
    while (messages.length === 0) {
      await other`select from business_api.things`
      await sleep(20)
    }
    await reader.end()
    assert.deepEqual((await migrating).applied, ['0002-note.sql'])
    assert.ok(await hasColumn())
    assert.equal(
      messages[0],
      "Trying again: Cannot apply migration '0002-note.sql': canceling statement due to lock timeout; " +
        'look for the oldest xact_start in pg_stat_activity, and end that transaction',
    )
  })

  test('fails after its timeout, says what to do, and leaves nothing behind', async () => {
    const reader = await startReader()
    await assert.rejects(migrateFrom(sql, COLUMN, { timeoutMs: 500 }), {
      code: STORE_UNAVAILABLE,
      message:
        "Cannot apply migration '0002-note.sql': canceling statement due to lock timeout; " +
        'look for the oldest xact_start in pg_stat_activity, and end that transaction, then migrate again',
    })
    assert.equal(await hasColumn(), false)
    await reader.end()
    assert.equal((await migrateFrom(sql, COLUMN)).current, 2)
  })

  test('is applied once by eight processes', async () => {
    const reader = await startReader()
    const pools = Array.from({ length: 8 }, () => database.sql({ max: 1 }))
    const migrating = Promise.all(pools.map((pool) => migrateFrom(pool, COLUMN)))
    await sleep(1500)
    await reader.end()
    assert.deepEqual(
      (await migrating).flatMap(({ applied }) => applied),
      ['0002-note.sql'],
    )
  })

  test('in another process is waited for until the timeout, and no longer', async () => {
    const holder = await database.sql({ max: 1 }).reserve()
    await holder`select pg_advisory_lock(7094703731946386291)`
    await assert.rejects(migrateFrom(sql, COLUMN, { timeoutMs: 200 }), {
      code: STORE_UNAVAILABLE,
      message:
        'Cannot migrate because another process is still migrating; wait for its end, then migrate again',
    })
    holder.release()
  })

  test('leaves no sessions behind', async () => {
    await migrateFrom(database.sql({ max: 1, connection: { application_name: 'migrating' } }), COLUMN)
    const sessions = (): Promise<readonly unknown[]> =>
      sql`select from pg_stat_activity where application_name = 'migrating'`
    await until('no session is left', async () => (await sessions()).length === 0, 30_000)
  })
})
