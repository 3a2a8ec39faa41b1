import type {
  PurgeReport,
  PurgeRequest,
  SharedPurgeReport,
  SharedPurgeRequest,
} from '../webhooks/deliveries.ts'
import type { Database } from './connection/database.ts'

// The parts of a purge are functions of the schema: see sql/0019-retention.sql.

/** Purges a bounded part of the old rows: see `DeliveryStore.purge`. */
export async function purge(
  database: Database,
  { eventsAfterMs, limit, cursor = null, entry }: PurgeRequest,
): Promise<PurgeReport> {
  const [part] = await database.row(
    (sql, answerTag) => sql`
      select
        business_api.purge_part(
          ${eventsAfterMs}::float8, ${cursor ?? '{}'}::text::jsonb, ${limit}::int, true,
          ${entry === undefined ? null : JSON.stringify(entry)}::text::jsonb
        )::text,
        ${answerTag}`,
  )
  const { events, idempotencyKeys, walk, isDone } = JSON.parse(part ?? 'null')
  return { events, idempotencyKeys, next: isDone ? null : JSON.stringify(walk) }
}

/** Purges the next part for all processes: see `DeliveryStore.continuePurge`. */
export async function continuePurge(
  database: Database,
  { eventsAfterMs, limit, share }: SharedPurgeRequest,
): Promise<SharedPurgeReport> {
  const [part] = await database.row(
    (sql, answerTag) => sql`
      select business_api.continue_purge(${eventsAfterMs}::float8, ${limit}::int, ${share}::float8)::text, ${answerTag}`,
  )
  return JSON.parse(part ?? 'null') as SharedPurgeReport
}
