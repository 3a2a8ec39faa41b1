import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { STORE_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { countWaiting } from '../_waiting.ts'

// A call that gave up waiting for a foreign lock must not be carried out afterwards: the caller has seen a failure, without the
// secret, and may try again.

const ORG = 'org_late'
const STATEMENT_TIMEOUT_MS = 500

describe('A call that has waited too long for a lock is not carried out', () => {
  let database: TestDatabase
  let store: PostgresStore
  let sql: Sql

  before(async () => {
    database = await createTestDatabase()
    store = createPostgresStore(database.url, { statementTimeoutMs: STATEMENT_TIMEOUT_MS })
    sql = database.sql()
  })
  after(async () => {
    await store.close()
    await database.drop()
  })

  const settings = () =>
    createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  const platform = () => createPlatform(store)

  /**
   * Makes a call while a lock is held, and releases the lock after the call has failed and its statement has ended: the statement
   * gives up the wait by itself, before the caller's deadline where the machine is fast enough.
   */
  async function callBehind(
    lock: (tx: TransactionSql) => Promise<unknown>,
    call: () => Promise<unknown>,
  ): Promise<void> {
    const done = Symbol('done')
    const held = sql.begin(async (tx) => {
      await lock(tx)
      await assert.rejects(call(), { code: STORE_UNAVAILABLE })
      while ((await countWaiting(sql)) > 0);
      // The rollback would let a statement go on that still waited.
      throw done
    })
    assert.equal(await held.catch((error: unknown) => error), done)
    const others = () => sql`
      select from pg_stat_activity
      where datname = current_database() and state = 'active' and pid <> pg_backend_pid()`
    while ((await others()).length > 0);
  }

  test('endpoints.rotateSecret()', async () => {
    const { endpoints } = settings()
    const { id } = await endpoints.register(ORG, { url: 'https://127.0.0.1/' })
    const secrets = async () => (await store.endpoints.getTarget(ORG, id))?.sealedSecrets
    const known = await secrets()
    await callBehind(
      (tx) => tx`select from business_api.webhook_endpoints where id = ${id} for update`,
      () => endpoints.rotateSecret(ORG, id),
    )
    assert.deepEqual(await secrets(), known)
  })

  test('apiKeys.rotate()', async () => {
    const { apiKeys } = settings()
    const { id } = await apiKeys.create(ORG, { name: 'Late', scopes: ['clients:read'] })
    await callBehind(
      (tx) => tx`select from business_api.api_keys where id = ${id} for update`,
      () => apiKeys.rotate(ORG, id, { overlapMs: 0 }),
    )
    const [key, ...others] = await apiKeys.list(ORG)
    assert.deepEqual([key?.revokedAt, others], [null, []])
  })

  test('invoices.create() with the next number of its series', async () => {
    const { invoices } = platform()
    const invoice = {
      currency: 'TND',
      total: '1',
      issueDate: '2026-01-01T00:00:00Z',
      dueDate: '2026-02-01T00:00:00Z',
    }
    await invoices.create(ORG, invoice)
    await callBehind(
      (tx) => tx`select from business_api.number_series where organization_id = ${ORG} for update`,
      () => invoices.create(ORG, invoice),
    )
    assert.equal((await sql`select from business_api.invoices`).length, 1)
  })

  test('leads.convert()', async () => {
    const { businesses, leads } = platform()
    const { id: businessId } = await businesses.create(ORG, { name: 'Late' })
    const { id: leadId } = await leads.create(ORG, { businessId })
    await callBehind(
      (tx) => tx`
        update business_api.businesses
        set client_id = 'cli_other', client_status = 'active', total_revenue = 0, monthly_revenue = 0, converted_at = now()
        where organization_id = ${ORG} and id = ${businessId}`,
      async () => {
        await leads.convert(ORG, { leadId })
      },
    )
    const [lead] = await sql`select stage from business_api.leads where id = ${leadId}`
    assert.equal(lead?.stage, 'new')
  })
})
