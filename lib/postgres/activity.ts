import type { ActivityRequest, StoredActivity } from '../webhooks/activity.ts'
import type { Database } from './connection/database.ts'
import { callFor } from './statements/statement.ts'

/** Reads an organization's activity stats. See sql/47-activity.sql. */
export function readActivity(database: Database, request: ActivityRequest): Promise<StoredActivity> {
  const { organizationId, endpointId, from, to, interval } = request
  const call = 'read_activity(text, text, timestamptz, timestamptz, text)'
  return callFor(database, organizationId, call, organizationId, endpointId, from, to, interval)
}
