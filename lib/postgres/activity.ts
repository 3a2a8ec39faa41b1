import type { ActivityRequest, StoredActivity } from '../webhooks/activity.ts'
import type { Database } from './connection/database.ts'

/** Reads the activity of an organization: see sql/47-activity.sql. */
export async function readActivity(
  database: Database,
  { organizationId, endpointId, from, to, interval }: ActivityRequest,
): Promise<StoredActivity> {
  const [activity] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select
        business_api.read_activity(
          ${organizationId}::text, ${endpointId}::text, ${from}::text::timestamptz, ${to}::text::timestamptz, ${interval}::text
        ),
        ${answerTag}`,
  )
  return JSON.parse(activity ?? 'null') as StoredActivity
}
