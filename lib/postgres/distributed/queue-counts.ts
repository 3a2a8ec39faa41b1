import type { Backlog } from '../../webhooks/deliveries.ts'
import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../../webhooks/queue-counts.ts'
import type { Database } from '../connection/database.ts'
import type { LookAtNodes } from './nodes.ts'

/**
 * Counts the queue of a distributed database: the sums of all nodes, or the counts of an organization by the organization's node. See
 * sql/0038-counts-and-recoveries.sql.
 */
export async function countQueueOnNodes(
  database: Database,
  look: LookAtNodes,
  target: QueueTarget | null,
): Promise<QueueCounts> {
  if (target === null) return countAllOnNodes(look, QUEUE_COUNT_MAX)
  const { organizationId, endpointId = null } = target
  const [counts] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select
        business_api.count_queue_of_node(${organizationId}::text, ${endpointId}::text, ${QUEUE_COUNT_MAX}::int),
        ${answerTag}`,
  )
  return JSON.parse(counts ?? 'null') as QueueCounts
}

/** Measures the backlog of a distributed database: see `DeliveryStore.measure`. @param dueCounted the greatest number of due deliveries */
export async function measureOnNodes(look: LookAtNodes, dueCounted: number): Promise<Backlog> {
  const { due, oldestDueMs, inFlight } = await countAllOnNodes(look, dueCounted)
  return { due: Math.min(due, dueCounted), oldestDueMs, inFlight }
}

/** Adds up the counts of the nodes that answer, each exact to `countMax`. */
async function countAllOnNodes(look: LookAtNodes, countMax: number): Promise<QueueCounts> {
  const { answers } = await look<QueueCounts>('count_queue_of_node', [null, null, countMax])
  const total = (count: (counts: QueueCounts) => number): number =>
    Math.min(
      countMax + 1,
      answers.reduce((sum, counts) => sum + count(counts), 0),
    )
  return {
    due: total(({ due }) => due),
    oldestDueMs: Math.max(0, ...answers.map(({ oldestDueMs }) => oldestDueMs)),
    backingOff: total(({ backingOff }) => backingOff),
    paused: total(({ paused }) => paused),
    inFlight: total(({ inFlight }) => inFlight),
    deadLetters: total(({ deadLetters }) => deadLetters),
  }
}
