import type { ActivityRequest, StoredActivity } from '../webhooks/activity.ts'
import type { Database } from './connection/database.ts'
import { jsonFor } from './statements/statement.ts'

/** Reads the activity of an organization: see sql/47-activity.sql. */
export function readActivity(database: Database, request: ActivityRequest): Promise<StoredActivity> {
  const { organizationId, endpointId, from, to, interval } = request
  return jsonFor(
    database,
    organizationId,
    (sql) => sql`business_api.read_activity(
      ${organizationId}::text, ${endpointId}::text, ${from}::text::timestamptz, ${to}::text::timestamptz, ${interval}::text
    )`,
  )
}
