import type {
  PurgeReport,
  PurgeRequest,
  SharedPurgeReport,
  SharedPurgeRequest,
} from '../webhooks/deliveries.ts'
import type { Database } from './connection/database.ts'
import { callFor, jsonFor } from './statements/statement.ts'

// The purge's parts are SQL functions: see sql/50-retention.sql and sql/51-dropped-days.sql.

/** Purges a bounded part of the old rows: see `DeliveryStore.purge`. */
export async function purge(
  database: Database,
  { eventsAfterMs, limit, cursor = null, entry }: PurgeRequest,
): Promise<PurgeReport> {
  const call = 'purge_part(float8, jsonb, int, boolean, jsonb)'
  const values = [eventsAfterMs, cursor ?? '{}', limit, 'true', entry ? JSON.stringify(entry) : null]
  const { cursor: next, isDone, ...counts } = await callFor<PurgedPart>(database, null, call, ...values)
  return { ...counts, next: isDone ? null : JSON.stringify(next) }
}

type PurgedPart = Omit<PurgeReport, 'next'> & { readonly cursor: object; readonly isDone: boolean }

/** Purges the next part for all processes: see `DeliveryStore.continuePurge`. */
export function continuePurge(
  database: Database,
  { eventsAfterMs, limit, share }: SharedPurgeRequest,
): Promise<SharedPurgeReport> {
  return callFor(database, null, 'continue_purge(float8, int, float8)', eventsAfterMs, limit, share)
}

/** The progress of the delivery loops' purge. */
export interface RetentionState {
  /** Age at which events are purged, in milliseconds; null: events are kept forever. */
  readonly retentionMs: number | null
  /** Milliseconds since the latest part of a purge; null before the first. */
  readonly purgedAgoMs: number | null
  /** Lag of the purge, in ms; null: unknown. */
  readonly lagMs: number | null
}

/** Reads the progress of the delivery loops' purge. */
export function readRetention(database: Database): Promise<RetentionState> {
  return jsonFor(
    database,
    null,
    (sql) => sql`coalesce(
      (
        select pg_catalog.json_build_object(
          'retentionMs', case when progress.retention_ms < ${FOREVER_MS}::float8 then progress.retention_ms end,
          'purgedAgoMs', extract(epoch from now() - progress.purged_at) * 1000,
          'lagMs', business_api.purge_lag(progress.retention_ms, progress.cursor)
        )
        from business_api.purge_progress progress where progress.organization_id = ''
      ),
      '{"retentionMs": null, "purgedAgoMs": null, "lagMs": null}'
    )::text`,
  )
}

/** 500 years: longer than any retention of a host. A loop without retention stores a longer time. */
const FOREVER_MS = 500 * 365 * 24 * 60 * 60 * 1000
