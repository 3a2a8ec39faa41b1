import { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from '../webhooks/queue-counts.ts'
import type { KeptDelivery, KeptEndpoint, Memory } from './state.ts'

/** Counts the queue: see `DeliveryStore.countQueue`. */
export function countQueue(memory: Memory, target: QueueTarget | null): QueueCounts {
  const now = memory.clock()
  const organizations = target ? [memory.organization(target.organizationId)] : [...memory.organizations()]
  const isWanted = ({ endpoint }: KeptDelivery): boolean =>
    target?.endpointId === undefined || endpoint.record.id === target.endpointId
  const pending = organizations
    .flatMap(({ endpoints }) => [...endpoints.values()])
    .flatMap((endpoint) => [...endpoint.pending])
    .filter(isWanted)
  const ready = pending.filter(({ dueAt }) => dueAt <= now)
  const due = ready.filter(({ endpoint }) => isIn(endpoint, 'enabled'))
  const finished = organizations.flatMap(({ deliveries }) => [...deliveries.values()]).filter(isWanted)
  return {
    due: capped(due.length),
    // reduce instead of Math.min(…): a call cannot take so many arguments.
    oldestDueMs:
      now -
      due.filter(({ isBackfill }) => !isBackfill).reduce((oldest, { dueAt }) => Math.min(oldest, dueAt), now),
    backingOff: capped(
      pending.filter(
        ({ dueAt, endpoint }) => dueAt > now && (isIn(endpoint, 'enabled') || isIn(endpoint, 'paused')),
      ).length,
    ),
    paused: capped(ready.filter(({ endpoint }) => isIn(endpoint, 'paused')).length),
    sending: capped(finished.filter(({ state }) => state === 'sending').length),
    failed: capped(finished.filter(({ state }) => state === 'failed').length),
  }
}

function isIn({ state, isRemoved }: KeptEndpoint, wanted: 'enabled' | 'paused'): boolean {
  return !isRemoved && state === wanted
}

function capped(count: number): number {
  return Math.min(count, QUEUE_COUNT_MAX + 1)
}
