import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import { insist } from './_life-volume.ts'

// The tables at the end of a long life: what is left in them, their sizes, and their partitions.

/** No row is left that nobody needs. */
export async function assertNothingLeft(sql: Sql, oldDays: number): Promise<void> {
  const [row] = await sql`
    with open_day as (
      select distinct (business_api.published_at(e.delivery_prefix) at time zone 'UTC')::date as day
        from business_api.open_deliveries d
        join business_api.events e on e.organization_id = d.organization_id and e.id = d.event_id
    )
    select
      (select count(*) from business_api.events e
        where e.delivery_prefix < business_api.day_bound(now() - ${oldDays} * interval '1 day')
          and (business_api.published_at(e.delivery_prefix) at time zone 'UTC')::date not in (select day from open_day))::int as "old events",
      (select count(*) from business_api.finished_deliveries d
        where d.created_at < now() - ${oldDays} * interval '1 day'
          and (d.created_at at time zone 'UTC')::date not in (select day from open_day))::int as "old deliveries",
      (select count(*) from business_api.delivery_attempts a
        where not exists (select 1 from business_api.finished_deliveries d
                           where d.organization_id = a.organization_id and d.id = a.delivery_id)
          and not exists (select 1 from business_api.open_deliveries d
                           where d.organization_id = a.organization_id and d.id = a.delivery_id))::int as "attempts of no delivery",
      (select count(*) from business_api.idempotency_keys where expires_at < now())::int as "expired keys",
      (select count(*) from business_api.webhook_endpoints w
        where w.state = 'removed' and not exists (
          select 1 from business_api.finished_deliveries d
           where d.organization_id = w.organization_id and d.endpoint_id = w.id))::int as "removed endpoints",
      (select count(*) from business_api.open_deliveries d where d.lease_until < now())::int as "ended leases"`
  assert.deepEqual(
    { ...row },
    {
      'old events': 0,
      'old deliveries': 0,
      'attempts of no delivery': 0,
      'expired keys': 0,
      'removed endpoints': 0,
      'ended leases': 0,
    },
  )
  await assertBounded(sql)
  const [table] = await sql`select to_regclass('business_api.event_ids') is not null as exists`
  if (!table?.exists) return
  const ids = await sql`
    select i.id from business_api.event_ids i
     where not exists (select 1 from business_api.events e where e.organization_id = i.organization_id and e.id = i.id)`
  assert.deepEqual([...ids], [], 'ids of no event')
}

/**
 * Rows that are kept for good are as many as what they belong to: a bucket for each key and organization, keys in force or not; one
 * previous secret for each endpoint, in its own row, until the next rotation.
 */
async function assertBounded(sql: Sql): Promise<void> {
  const [row] = await sql`
    select
      (select count(*) from business_api.rate_buckets b
        where b.bucket <> 'organization' and not exists (
          select 1 from business_api.api_keys k where k.organization_id = b.organization_id and k.id = b.bucket))::int as buckets,
      (select count(*) from business_api.settings_turns t
        where not exists (select 1 from business_api.api_keys k where k.organization_id = t.organization_id)
          and not exists (select 1 from business_api.webhook_endpoints w where w.organization_id = t.organization_id))::int as turns,
      (select count(*) from business_api.webhook_endpoints
        where state = 'removed' and (sealed_secret is not null or previous_sealed_secret is not null))::int as secrets,
      (select count(*) from business_api.number_series s
        where not exists (select 1 from business_api.invoices i
                           where i.organization_id = s.organization_id and i.number like s.series || '-%'))::int as series`
  assert.deepEqual({ ...row }, { buckets: 0, turns: 0, secrets: 0, series: 0 })
}

/** Bytes by table. */
export type Sizes = Readonly<Record<string, number>>

/** The tables that must not grow, with their partitions, in bytes. */
export async function measure(sql: Sql): Promise<Sizes> {
  const rows = await sql`
    select coalesce(pg_partition_root(c.oid), c.oid)::regclass::text as table, sum(pg_total_relation_size(c.oid))::text as bytes
      from pg_class c
     where c.relnamespace = 'business_api'::regnamespace and c.relkind = 'r'
     group by 1`
  const sizes = rows.map(
    ({ table, bytes }) => [String(table).replace('business_api.', ''), Number(bytes)] as const,
  )
  return Object.fromEntries(sizes.filter(([table]) => FLAT.has(table)))
}

const FLAT = new Set([
  'events',
  'open_deliveries',
  'finished_deliveries',
  'delivery_attempts',
  'idempotency_keys',
])

/** Room for pages that a vacuum leaves half empty. */
const SLACK_BYTES = 4 * 1024 * 1024

/** Asserts that no table has grown since the middle. */
export function assertFlat(middle: Sizes, end: Sizes): void {
  for (const [table, bytes] of Object.entries(end))
    assert.ok(
      bytes <= 1.3 * (middle[table] ?? 0) + SLACK_BYTES,
      `${table} grows: ${describeSizes(middle)}; ${describeSizes(end)}`,
    )
}

/** Megabytes, for people. */
export function describeSizes(sizes: Sizes): string {
  const parts = Object.entries(sizes).map(([table, bytes]) => `${table} ${(bytes / 1024 / 1024).toFixed(1)}`)
  return parts.join(', ')
}

/** What autovacuum does in five days. */
export async function vacuum(sql: Sql): Promise<void> {
  await insist(() => sql`vacuum`)
}

/** The names of all partitions. */
export async function listPartitions(sql: Sql): Promise<readonly string[]> {
  const rows = await sql`
    select c.relname as name from pg_class c
     where c.relnamespace = 'business_api'::regnamespace and c.relispartition and c.relkind = 'r'`
  return rows.map(({ name }) => String(name))
}

/** With tables by day, days are dropped. */
export async function assertDropped(sql: Sql, seen: ReadonlySet<string>, days: number): Promise<number> {
  const left = new Set(await listPartitions(sql))
  const dropped = [...seen].filter((name) => !left.has(name)).length
  // The upgrade leaves the rows of before, and of a month to come, in one partition.
  if (seen.size > 0 && days >= 60) assert.ok(dropped > 0, `none of ${seen.size} days was dropped`)
  return dropped
}
