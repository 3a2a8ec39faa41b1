import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import type { MigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { FAILURE_LIMIT, type Hands } from './_life-volume.ts'

// The years before the upgrade: the schema of the first installations, and the statements of the version that came with that schema.
// Statements of today's version need today's schema.

/**
 * Makes the baseline schema: the migrations 0001 to 0023 as the first installations have them. Until the first release the file follows
 * changes of these migrations in place; after the first release the file is never written anew.
 */
export async function makeBaseline(sql: Sql): Promise<void> {
  const packed = await readFile(join(import.meta.dirname, '_baseline.json.gz'))
  const texts: MigrationTexts = JSON.parse(gunzipSync(packed).toString())
  await migrateFrom(sql, texts)
}

/** The number of records of a kind that {@link writeRecords} makes. */
export const OLD_RECORDS = 3

/** The year in which a life begins. */
export const OLD_YEAR = 2030

/** Writes businesses with clients and leads, and invoices with payments and numbers of the series. */
export async function writeRecords(sql: Sql, organizationId: string): Promise<void> {
  for (let n = 1; n <= OLD_RECORDS; n++) {
    const [business, client, lead, invoice] = ['biz', 'cli', 'lead', 'inv'].map(
      (kind) => `${kind}_before-${n}`,
    )
    await sql`
      insert into business_api.businesses (organization_id, id, name, city)
      values (${organizationId}, ${business ?? ''}, ${`Before ${n} "quoted"`}, 'Tunis')`
    await sql`
      insert into business_api.clients
        (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at)
      values (${organizationId}, ${client ?? ''}, ${business ?? ''}, 'active', 12.5, 0, now())`
    await sql`
      insert into business_api.leads (organization_id, id, business_id, stage, created_at)
      values (${organizationId}, ${lead ?? ''}, ${business ?? ''}, 'new', now())`
    await sql`
      insert into business_api.invoices (
        organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid
      )
      values (
        ${organizationId}, ${invoice ?? ''}, ${`INV-${OLD_YEAR}-000${n}`}, 'paid', 'TND', 3, now(), now(), 1250.125, 1250.125
      )`
    await sql`
      insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
      values (${organizationId}, ${`pay_before-${n}`}, ${invoice ?? ''}, 1250.125, now())`
  }
  await sql`
    insert into business_api.number_series (organization_id, series, last)
    values (${organizationId}, ${`INV-${OLD_YEAR}`}, ${OLD_RECORDS})`
}

/** Purges what is older than the retention. */
export async function purgeBaseline(sql: Sql, retentionMs: number): Promise<void> {
  for (;;) {
    const [row] = await sql`select business_api.continue_purge(${retentionMs}::float8, 1000, 1)::text as part`
    if (JSON.parse(row?.part).isDone) return
  }
}

/** The store with the only verb of the settings that a life needs before the upgrade: endpoints are registered by the baseline schema. */
export function baselineSettingsStore(store: BusinessApiStore, sql: Sql): BusinessApiStore {
  const endpoints: BusinessApiStore['endpoints'] = {
    ...store.endpoints,
    async insert({ organizationId, endpoint, limit }) {
      await sql`
        select business_api.insert_endpoint(${organizationId}, ${JSON.stringify(endpoint)}::text::jsonb, ${limit}::int)`
      const item = await store.endpoints.get(organizationId, endpoint.id)
      assert.ok(item)
      return { outcome: 'inserted', item }
    },
  }
  return { ...store, endpoints }
}

/** The verbs of the volume by the functions of the baseline schema. */
export function baselineHands(sql: Sql): Hands {
  return {
    async claim({ token, isRepeat, limit, maxBytes, capacity, scanLimit, cursor, leaseMs, maxAttempts }) {
      const [row] = await sql`
        select business_api.claim_deliveries(
          ${token}, ${isRepeat}, ${limit}, ${maxBytes}, ${scanLimit}, ${cursor?.organizationId ?? null}::text,
          ${cursor?.endpointId ?? null}::text, ${leaseMs}, ${maxAttempts}, ${capacity.endpoint}, ${capacity.organization},
          ${JSON.stringify(capacity.endpoints)}::text::jsonb, ${JSON.stringify(capacity.organizations)}::text::jsonb
        ) as claims`
      return JSON.parse(row?.claims)
    },
    async writeResults(results) {
      const { failures, failingMs } = FAILURE_LIMIT
      const [row] = await sql`
        select business_api.write_attempt_results(
          ${JSON.stringify(results)}::text::jsonb, ${failures}, ${failingMs}::float8
        ) as report`
      return JSON.parse(row?.report)
    },
  }
}
