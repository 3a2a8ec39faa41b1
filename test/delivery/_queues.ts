import assert from 'node:assert/strict'
import type { ClaimPlan } from '../../lib/delivery/claim-plan.ts'
import type { Claimed } from '../../lib/delivery/queue.ts'
import type { EndpointQueues } from '../../lib/delivery/queues.ts'
import type { Verdict } from '../../lib/delivery/verdict.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import type { EndpointTarget } from '../../lib/webhooks/endpoints.ts'

export const SLOW_MS = 2000
export const QUICK_MS = 5

/** What an attempt needs from an endpoint. */
export const TARGET: EndpointTarget = {
  ...ENDPOINT_DEFAULTS,
  url: 'https://subscriber.test/',
  headerNames: [],
  sealedHeaders: null,
  sealedSecrets: ['plain.whsec_test'],
}

export let deliveries = 0

export function newDelivery(endpointId: string, organizationId = 'org_1'): Claimed {
  deliveries++
  return {
    organizationId,
    id: `dlv_${deliveries}`,
    endpointId,
    eventId: `evt_${deliveries}`,
    type: 'project.completed',
    body: '{}',
    ...TARGET,
    attempt: 1,
    token: 'token',
    leaseEndsAt: Number.POSITIVE_INFINITY,
  }
}

export function addTo(
  queues: EndpointQueues,
  count: number,
  endpointId: string,
  organizationId?: string,
): void {
  for (let added = 0; added < count; added++)
    queues.add(newDelivery(endpointId, organizationId), performance.now())
}

/** Sends everything that can be sent now. */
export function takeAll(queues: EndpointQueues): Claimed[] {
  const taken: Claimed[] = []
  for (let next = queues.next(); next; next = queues.next()) taken.push(next)
  return taken
}

/** Ends an attempt of an endpoint. */
export function runOne(
  queues: EndpointQueues,
  endpointId: string,
  load: Verdict['load'],
  durationMs = SLOW_MS,
): void {
  queues.add(newDelivery(endpointId), performance.now())
  const delivery = queues.next()
  assert.ok(delivery)
  queues.end(delivery, load, durationMs)
}

/** Returns how many attempts of an endpoint can start at once if there are enough deliveries. */
export function limitOf(queues: EndpointQueues, endpointId: string): number {
  addTo(queues, 64, endpointId)
  const taken = takeAll(queues)
  queues.drain()
  for (const delivery of taken) queues.end(delivery, 'same', SLOW_MS)
  return taken.length
}

/** Plans a claim and applies the plan. */
export function plan(queues: EndpointQueues): ClaimPlan {
  const planned = queues.planClaim()
  queues.adoptPlan(planned)
  return planned
}

/** Returns how many deliveries of an endpoint the next claim can return. */
export function capacityOf(queues: EndpointQueues, endpointId: string): number {
  const { endpoint, endpoints } = plan(queues).capacity
  return endpoints[endpointId] ?? endpoint
}
