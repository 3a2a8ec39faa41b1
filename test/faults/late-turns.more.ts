import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'

// A statement that first waited for a connection of the store, and then for a lock, must not run after the caller has given up.

const ORG = 'org_turns'
const TIMEOUT_MS = 1500

describe('A statement after a wait for a turn', () => {
  let database: TestDatabase
  let store: PostgresStore
  let sql: Sql
  let invoiceId: string

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
    store = createPostgresStore(database.url, { maxConnections: 4, statementTimeoutMs: TIMEOUT_MS })
    const { invoices } = createPlatform(store)
    const invoice = await invoices.create(ORG, {
      currency: 'TND',
      total: '1000',
      dueDate: new Date(Date.now() + 86_400_000),
    })
    invoiceId = invoice.id
    await invoices.issue(ORG, { invoiceId })
  })
  after(async () => {
    await store.close()
    await database.drop()
  })

  const pay = (): Promise<unknown> =>
    createPlatform(store).invoices.recordPayment(ORG, { invoiceId, amount: '10' })

  async function countIn(table: string): Promise<number> {
    const [row] = await sql`
      select count(*)::int as count from ${sql(table)} where organization_id = ${ORG}`
    return row?.count
  }

  test('writes nothing after its time, when the lock is free again', async () => {
    await sql.begin(async (tx) => {
      await tx`select 1 from business_api.invoices where id = ${invoiceId} for update`
      const outcomes = await Promise.allSettled(Array.from({ length: 6 }, pay))
      assert.deepEqual(new Set(outcomes.map(({ status }) => status)), new Set(['rejected']))
      // The server notices the closed connections within a tenth of a second.
      await sleep(500)
    })
    await sleep(300)
    assert.equal(await countIn('business_api.payments'), 0)
  })

  test('of a request writes nothing after the 503', async () => {
    const { key } = await makeApiKey(database.url, ORG)
    const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false, deadlineMs: 1000 })
    let send = (_: string): void => {}
    const body = new ReadableStream({
      start(controller) {
        send = (text) => {
          controller.enqueue(new TextEncoder().encode(text))
          controller.close()
        }
      },
    })
    const before = await countIn('business_api.businesses')
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body, duplex: 'half' }
    const answered = api(new Request('http://localhost/api/v1/clients', init as RequestInit))
    // Admitted by now, and waiting for the body.
    await sleep(200)
    await sql.begin(async (tx) => {
      await tx`select 1 from business_api.invoices where id = ${invoiceId} for update`
      const payments = [pay(), pay()]
      await untilWaiting(sql, payments.length)
      send('{"name":"Atlas"}')
      assert.equal((await answered).status, 503)
      await Promise.allSettled(payments)
    })
    await sleep(500)
    assert.equal(await countIn('business_api.businesses'), before)
  })
})
