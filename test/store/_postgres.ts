import type { Sql } from 'postgres'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'

// A look at PostgreSQL behind the store's back.

/** The recorded events of an organization: see `StoreHarness.events`. */
export async function readEventsOf(sql: Sql, organizationId: string): Promise<readonly EventRecord[]> {
  const rows = await sql<EventRecord[]>`
    select id, type, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "createdAt", body
    from business_api.events where organization_id = ${organizationId} order by id`
  return [...rows]
}

/** Takes back everything that the store compares with the database's clock. */
export async function letTimePass(sql: Sql, organizationId: string, ms: number): Promise<void> {
  const time = sql`${ms}::float8 * interval '1 millisecond'`
  await sql`
    update business_api.idempotency_keys set expires_at = expires_at - ${time}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.api_keys
    set expires_at = expires_at - ${time}, last_used_at = last_used_at - ${time}, expiry_noticed = expiry_noticed - ${time}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.rate_buckets set full_at = full_at - ${ms}::float8 / 1000
    where organization_id = ${organizationId}`
  await sql`
    update business_api.audit_entries set changed_at = changed_at - ${time} where organization_id = ${organizationId}`
  await sql`
    update business_api.open_deliveries
    set due_at = due_at - ${time}, claimed_at = claimed_at - ${time}, lease_until = lease_until - ${time}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.webhook_endpoints
    set previous_secret_expires_at = previous_secret_expires_at - ${time}, failing_since = failing_since - ${time},
      secret_expiry_noticed = secret_expiry_noticed - ${time}
    where organization_id = ${organizationId}`
}
