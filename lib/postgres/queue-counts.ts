import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../webhooks/queue-counts.ts'
import type { Database } from './connection/database.ts'
import { callFor } from './statements/statement.ts'

/** Counts queued deliveries. See `DeliveryStore.countQueue` and sql/43-queue-counts.sql. */
export function countQueue(database: Database, target: QueueTarget | null): Promise<QueueCounts> {
  const { organizationId = null, endpointId = null } = target ?? {}
  return callFor(database, null, 'count_queue(text, text, int)', organizationId, endpointId, QUEUE_COUNT_MAX)
}
