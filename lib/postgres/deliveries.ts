import type { ActivityRequest, StoredActivity } from '../webhooks/activity.ts'
import type { ClaimedDelivery } from '../webhooks/claims.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import type { EndpointTarget } from '../webhooks/endpoints.ts'
import type { Database } from './connection/database.ts'
import { createDeliveryLog } from './delivery-log.ts'
import { countQueue } from './queue-counts.ts'
import { createPurges } from './retention.ts'
import { callFor } from './statements/statement.ts'

/**
 * Creates the PostgreSQL store for deliveries. The delivery loop's operations are SQL functions, each of them a single
 * call for all organizations. See sql/40-claims.sql and sql/42-results.sql.
 */
export function createDeliveryStore(database: Database): DeliveryStore {
  return {
    async claim({ token, isRepeat, limit, maxBytes, scanLimit, cursor, leaseMs, maxAttempts, capacity }) {
      let sent = 0
      const [claims] = await database.row((sql, answerTag) => {
        // If a result was lost, the first attempt may have claimed deliveries.
        const isAgain = isRepeat || sent++ > 0
        return sql`
          select
            business_api.claim_deliveries(
              ${token}::text, ${String(isAgain)}::text::boolean, ${limit}::int, ${maxBytes}::int, ${scanLimit}::int,
              ${cursor?.organizationId ?? null}::text, ${cursor?.endpointId ?? null}::text,
              ${leaseMs}::float8, ${maxAttempts}::int, ${capacity.endpoint}::int, ${capacity.organization}::int,
              ${JSON.stringify(capacity.endpoints)}::text::jsonb, ${JSON.stringify(capacity.organizations)}::text::jsonb
            ),
            ${answerTag}`
      })
      const answer = JSON.parse(claims ?? 'null')
      return { ...answer, deliveries: answer.deliveries.map(toDelivery) }
    },

    async read(claims) {
      const call = 'read_claims(jsonb)'
      return (await callFor<StoredDelivery[]>(database, null, call, JSON.stringify(claims))).map(toDelivery)
    },

    writeResults: (results, limit) =>
      callFor(
        database,
        null,
        'write_attempt_results(jsonb, int, float8)',
        JSON.stringify(results),
        limit.failures,
        limit.failingMs,
      ),

    async release(claims) {
      const released = await callFor(database, null, 'release_deliveries(jsonb)', JSON.stringify(claims))
      if (released !== 0) database.wakeUp.signal()
    },

    ...createDeliveryLog(database),
    ...createPurges(database),

    countQueue: (target) => countQueue(database, target),

    readActivity: (request) => readActivity(database, request),

    watch: (onDue) => database.wakeUp.watch(onDue),
  }
}

/** The endpoint is a single value, returned by the function `endpoint_target`. */
type StoredDelivery = { readonly endpoint: EndpointTarget } & Omit<ClaimedDelivery, keyof EndpointTarget>

function toDelivery({ endpoint, ...delivery }: StoredDelivery): ClaimedDelivery {
  // Two spreads would take twenty times as long on Node.js 20 (a few microseconds).
  return Object.assign(delivery, endpoint)
}

/** Reads an organization's activity stats. See sql/47-activity.sql. */
function readActivity(database: Database, request: ActivityRequest): Promise<StoredActivity> {
  const { organizationId, endpointId, from, to, interval } = request
  const call = 'read_activity(text, text, timestamptz, timestamptz, text)'
  return callFor(database, organizationId, call, organizationId, endpointId, from, to, interval)
}
