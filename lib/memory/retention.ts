import type { PurgeReport, PurgeRequest } from '../webhooks/deliveries.ts'
import { countInEntry } from './audit.ts'
import type { KeptDelivery, Memory, Organization } from './state.ts'

/** Forgets what is old, a bounded part of it: see `DeliveryStore.purge`. */
export function purge(memory: Memory, { eventsAfterMs, limit, entry }: PurgeRequest): PurgeReport {
  const now = memory.clock()
  const purged = { events: 0, idempotencyKeys: 0 }
  for (const organization of memory.organizations()) {
    const events = purgeEvents(organization, now - eventsAfterMs, limit - purged.events)
    purged.events += events
    if (entry && events > 0) {
      countInEntry(memory, organization, { ...entry, subjectId: organization.id }, { events })
    }
    purged.idempotencyKeys += purgeIdempotencyKeys(organization, now, limit - purged.idempotencyKeys)
    purgeEndpoints(organization)
  }
  return purged
}

function purgeEvents({ events, deliveries }: Organization, before: number, limit: number): number {
  const old = [...events.values()]
    .filter(({ record }) => Date.parse(record.createdAt) < before)
    .filter((event) => !event.deliveries.some(isToBeSent))
    .slice(0, limit)
  for (const event of old) {
    events.delete(event.record.id)
    for (const { id } of event.deliveries) deliveries.delete(id)
  }
  return old.length
}

function isToBeSent({ state }: KeptDelivery): boolean {
  return state === 'pending' || state === 'in_flight'
}

function purgeIdempotencyKeys({ idempotency }: Organization, now: number, limit: number): number {
  const expired = [...idempotency].filter(([, { expiresAt }]) => expiresAt <= now).slice(0, limit)
  for (const [name] of expired) idempotency.delete(name)
  return expired.length
}

/** Those that were kept for a log of which nothing is left. */
function purgeEndpoints({ endpoints, deliveries }: Organization): void {
  const logged = new Set([...deliveries.values()].map(({ endpoint }) => endpoint))
  for (const [id, endpoint] of endpoints) {
    if (endpoint.isRemoved && !logged.has(endpoint)) endpoints.delete(id)
  }
}
