import type { Sql } from 'postgres'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { ageEvents } from '../_days.ts'

// Queries of PostgreSQL behind the store's back.

/** The recorded events of an organization: see `StoreHarness.events`. */
export async function readEventsOf(sql: Sql, organizationId: string): Promise<readonly EventRecord[]> {
  const rows = await sql<EventRecord[]>`
    select id, type, body
    from business_api.events where organization_id = ${organizationId} order by id`
  return [...rows]
}

const DAY_MS = 86_400_000

/** Takes back everything that the store compares with the database's clock: see `StoreHarness.letTimePass`. */
export async function letTimePass(sql: Sql, organizationId: string, ms: number): Promise<void> {
  const earlier = (column: string) =>
    sql`${sql(column)} = ${sql(column)} - ${ms}::float8 * interval '1 millisecond'`
  if (ms >= DAY_MS) {
    await sql`
      update business_api.endpoint_activity set ${earlier('hour')} where organization_id = ${organizationId}`
  }
  if (ms >= DAY_MS) await ageEvents(sql, ms, sql`event.organization_id = ${organizationId}`)
  await sql`
    update business_api.idempotency_keys set ${earlier('expires_at')}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.api_keys
    set ${earlier('expires_at')}, ${earlier('last_used_at')}, ${earlier('expiry_noticed')}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.rate_buckets set full_at = full_at - ${ms}::float8 / 1000
    where organization_id = ${organizationId}`
  await sql`
    update business_api.audit_entries set ${earlier('changed_at')} where organization_id = ${organizationId}`
  await sql`
    update business_api.open_deliveries
    set ${earlier('due_at')}, ${earlier('claimed_at')}, ${earlier('lease_until')}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.webhook_endpoints
    set ${earlier('previous_secret_expires_at')}, ${earlier('failing_since')},
      ${earlier('secret_expiry_noticed')}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.endpoint_rates
    set ${earlier('next_at')}, ${earlier('rejected_at')}
    where organization_id = ${organizationId}`
  await sql`
    update business_api.delivery_attempts set ${earlier('started_at')} where organization_id = ${organizationId}`
}
