import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// The deletion of an organization, seen in the tables.

let database: TestDatabase
let sql: Sql
let store: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  store = createPostgresStore(database.url)
})

after(async () => {
  await store.close()
  await database.drop()
})

const settings = () =>
  createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true, allowHttp: true })

/** The number of rows of an organization in each table that has organizations. */
async function rowsOf(organizationId: string): Promise<Readonly<Record<string, number>>> {
  const tables = await sql<{ name: string }[]>`
    select relation.relname as name from pg_attribute attribute
    join pg_class relation on relation.oid = attribute.attrelid
    where relation.relnamespace = 'business_api'::regnamespace and relation.relkind = 'r'
      and attribute.attname = 'organization_id'
    order by 1`
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const [row] = await sql`
      select count(*)::int as count from ${sql(`business_api.${name}`)} where organization_id = ${organizationId}`
    counts[name] = row?.count
  }
  return counts
}

async function fill(organizationId: string): Promise<void> {
  const platform = createPlatform(store)
  const { apiKeys, endpoints, rateLimits } = settings()
  const key = await apiKeys.create(organizationId, { name: 'Key', scopes: ['clients:read'] })
  await rateLimits.set(organizationId, { perSecond: 1, burst: 1 })
  await endpoints.register(organizationId, { url: 'http://127.0.0.1:9999/' })
  assert.ok(key)
  const idempotencyKey = 'key'
  const { business } = await platform.clients.create(organizationId, { name: 'Atlas', idempotencyKey })
  await platform.leads.create(organizationId, { businessId: business.id })
  await platform.proposals.create(organizationId, { title: 'Site', total: 1, currency: 'EUR' })
  const invoice = { currency: 'EUR', total: '1', dueDate: '2099-01-01T00:00:00Z' }
  const { id: invoiceId } = await platform.invoices.create(organizationId, invoice)
  await platform.invoices.issue(organizationId, { invoiceId })
  await platform.invoices.recordPayment(organizationId, { invoiceId, amount: '1' })
  await platform.projects.create(organizationId, { name: 'Site', billingType: 'fixed', value: 1 })
  await sql`insert into business_api.rate_buckets values (${organizationId}, 'b', 1)`
  await sql`
    insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
    select organization_id, id, 1, now(), 1, 'x' from business_api.deliveries where organization_id = ${organizationId}`
}

test('organizations.delete() leaves no row of the organization in any table of the catalogue, and every row of others', async () => {
  await fill('org_gone')
  await fill('org_stays')
  const before = await rowsOf('org_gone')
  const empty = Object.entries(before).filter(([, count]) => count === 0)
  // Rows of the whole database, under the empty organization.
  assert.deepEqual(
    empty.map(([name]) => name),
    ['event_limits', 'purge_progress'],
  )
  const stays = await rowsOf('org_stays')

  const progress: number[] = []
  const counts = await settings().organizations.delete('org_gone', {
    onProgress: (deleted) => progress.push(deleted),
  })
  const filled = Object.entries(before).filter(([, count]) => count > 0)
  assert.deepEqual(counts, Object.fromEntries(filled))
  assert.equal(
    progress.at(-1),
    filled.reduce((sum, [, count]) => sum + count, 0),
  )
  assert.deepEqual(
    Object.values(await rowsOf('org_gone')).filter((count) => count > 0),
    [],
  )
  assert.deepEqual(await rowsOf('org_stays'), stays)
  assert.deepEqual(await settings().organizations.delete('org_gone'), {})
})
