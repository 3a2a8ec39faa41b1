import type { DeliveryAttempt } from '../webhooks/claims.ts'
import type { Database } from './connection/database.ts'
import { isoTimestamp, textArray } from './statements/fragments.ts'

/** Reads the attempts of deliveries, by delivery id: a range of the primary key for each delivery. */
export async function listAttempts(
  database: Database,
  organizationId: string,
  deliveryIds: readonly string[],
): Promise<ReadonlyMap<string, readonly DeliveryAttempt[]>> {
  const [logs] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select coalesce(pg_catalog.json_object_agg(delivery_id, log), '{}')::text, ${answerTag} from (
        select delivery_id, pg_catalog.json_agg(
          pg_catalog.json_build_object(
            'number', number, 'startedAt', ${isoTimestamp(sql, 'started_at')}, 'durationMs', duration_ms,
            'dnsMs', dns_ms, 'connectMs', connect_ms, 'tlsMs', tls_ms, 'firstByteMs', first_byte_ms,
            'status', status, 'error', error, 'bodyExcerpt', body_excerpt, 'location', location
          )
          order by number
        ) as log
        from pg_catalog.unnest(${textArray(sql, deliveryIds)}) as wanted (id)
        -- One by one: a search for all ids together would descend the index of each day for each id.
        cross join lateral (
          select * from business_api.delivery_attempts attempt
          where attempt.organization_id = ${organizationId}::text and attempt.delivery_id = wanted.id
          offset 0
        ) as attempt
        group by delivery_id
      ) as item`,
  )
  return new Map(Object.entries(JSON.parse(logs ?? '{}') as Record<string, DeliveryAttempt[]>))
}
