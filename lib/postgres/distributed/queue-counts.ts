import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../../webhooks/queue-counts.ts'
import type { Database } from '../connection/database.ts'
import type { AskNodes } from './ask-nodes.ts'

/**
 * Counts the queue of a distributed database: the sums of all nodes, or the counts of an organization by the organization's node. See
 * sql/0038-counts-and-recoveries.sql.
 */
export async function countQueueOnNodes(
  database: Database,
  askNodes: AskNodes,
  target: QueueTarget | null,
): Promise<QueueCounts> {
  if (target === null) return countAllOnNodes(askNodes)
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

/** Adds up the counts of the nodes that answer. */
async function countAllOnNodes(askNodes: AskNodes): Promise<QueueCounts> {
  const { answers, isPartial } = await askNodes<QueueCounts>(
    (sql) => sql`business_api.count_queue_of_node(null::text, null::text, ${QUEUE_COUNT_MAX}::int)`,
    COUNT_MS,
  )
  const total = (count: (counts: QueueCounts) => number): number =>
    Math.min(
      QUEUE_COUNT_MAX + 1,
      answers.reduce((sum, counts) => sum + count(counts), 0),
    )
  return {
    due: total(({ due }) => due),
    oldestDueMs: Math.max(0, ...answers.map(({ oldestDueMs }) => oldestDueMs)),
    backingOff: total(({ backingOff }) => backingOff),
    paused: total(({ paused }) => paused),
    inFlight: total(({ inFlight }) => inFlight),
    deadLetters: total(({ deadLetters }) => deadLetters),
    ...(isPartial && { isPartial }),
  }
}

/** Milliseconds for the counts of a node: a count is no work of the loops, and may take as long as any statement. */
const COUNT_MS = 5000
