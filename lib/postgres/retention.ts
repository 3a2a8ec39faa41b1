import type { DeliveryStore, PurgeReport } from '../webhooks/deliveries.ts'
import type { Database } from './connection/database.ts'
import { callFor, jsonFor } from './statements/statement.ts'

// The parts of a purge are SQL functions. See sql/50-retention.sql and sql/51-dropped-days.sql.

/** Creates the purges of a PostgreSQL store. */
export function createPurges(database: Database): Pick<DeliveryStore, 'purge' | 'continuePurge'> {
  return {
    async purge({ eventsAfterMs, limit, cursor = null, entry }) {
      const call = 'purge_part(float8, jsonb, int, boolean, jsonb)'
      const values = [eventsAfterMs, cursor ?? '{}', limit, 'true', entry ? JSON.stringify(entry) : null]
      const { cursor: next, isDone, ...counts } = await callFor<PurgedPart>(database, null, call, ...values)
      return { ...counts, next: isDone ? null : JSON.stringify(next) }
    },

    continuePurge({ eventsAfterMs, limit, share }) {
      return callFor(database, null, 'continue_purge(float8, int, float8)', eventsAfterMs, limit, share)
    },
  }
}

type PurgedPart = Omit<PurgeReport, 'next'> & { readonly cursor: object; readonly isDone: boolean }

/** The progress of the delivery loops' purge. */
export interface RetentionState {
  /** Age in milliseconds at which events are deleted, or `null` if they're kept forever. */
  readonly retentionMs: number | null
  /** Milliseconds since the purge last ran, or `null` if it never did. */
  readonly purgedAgoMs: number | null
  /** The purge's lag in ms, or `null` if unknown. */
  readonly lagMs: number | null
}

/** Returns the progress of the delivery loops' purge. */
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

/** 500 years, longer than any actual retention. A loop without a retention stores an even higher value. */
const FOREVER_MS = 500 * 365 * 24 * 60 * 60 * 1000
