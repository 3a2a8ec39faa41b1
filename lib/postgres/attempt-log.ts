import type { DeliveryAttempt } from '../webhooks/deliveries.ts'
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
            'status', status, 'error', error, 'bodyExcerpt', body_excerpt
          )
          order by number
        ) as log
        from business_api.delivery_attempts
        where organization_id = ${organizationId}::text and delivery_id = any (${textArray(sql, deliveryIds)})
        group by delivery_id
      ) as item`,
  )
  return new Map(Object.entries(JSON.parse(logs ?? '{}') as Record<string, DeliveryAttempt[]>))
}
