import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../webhooks/queue-counts.ts'
import type { Database } from './connection/database.ts'
import { jsonFor } from './statements/statement.ts'

/** Counts the queue: see `DeliveryStore.countQueue`. A function of the schema: see sql/43-queue-counts.sql. */
export function countQueue(database: Database, target: QueueTarget | null): Promise<QueueCounts> {
  return jsonFor(
    database,
    null,
    (sql) => sql`business_api.count_queue(
      ${target?.organizationId ?? null}::text, ${target?.endpointId ?? null}::text, ${QUEUE_COUNT_MAX}::int
    )`,
  )
}
