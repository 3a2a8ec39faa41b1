import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import { everyDelivery } from '../_deliveries.ts'

// What a long life should have left behind: every published event with the endpoints that wanted the event, and every result that
// was written.

/** How a subscriber answers. */
export type Behaviour = 'answering' | 'flaky' | 'failing' | 'gone'

/** An endpoint as the ledger knows the endpoint. */
export interface LedgerEndpoint {
  readonly organizationId: string
  readonly id: string
  readonly types: readonly string[] | null
  behaviour: Behaviour
  state: 'enabled' | 'paused' | 'disabled' | 'removed'
  /** True once the endpoint was disabled or removed: from then on deliveries may be skipped. */
  wasClosed: boolean
  /** The end of the overlap of the latest rotation; 0: none. */
  overlapUntil: number
}

/** A published event. */
export interface LedgerEvent {
  readonly organizationId: string
  readonly publishedAt: number
  /** The endpoints that wanted the event, with the result that is known. */
  readonly results: Map<LedgerEndpoint, 'delivered' | 'failed' | undefined>
}

/** The ledger of the organizations with many deliveries. */
export class Ledger {
  readonly endpoints: Map<string, LedgerEndpoint> = new Map()
  readonly events: Map<string, LedgerEvent> = new Map()
  /** Of all time. */
  published = 0
  deliveries = 0
  delivered = 0
  failed = 0
  /** Deliveries that succeeded although they had succeeded before: a result that a crash took back. */
  repeated = 0
  attempts = 0

  /** Enters an event for the endpoints that want the event now. */
  enter(organizationId: string, id: string, type: string, publishedAt: number): void {
    const wanting = [...this.endpoints.values()].filter(
      (endpoint) =>
        endpoint.organizationId === organizationId &&
        endpoint.state !== 'removed' &&
        (endpoint.types === null || endpoint.types.includes(type)),
    )
    this.events.set(id, {
      organizationId,
      publishedAt,
      results: new Map(wanting.map((endpoint) => [endpoint, undefined])),
    })
    this.published++
    this.deliveries += wanting.length
  }

  /** Enters a written result. */
  conclude(eventId: string, endpointId: string, outcome: 'delivered' | 'retry' | 'failed'): void {
    this.attempts++
    if (outcome === 'retry') return
    const event = this.events.get(eventId)
    const endpoint = this.endpoints.get(endpointId)
    assert.ok(event && endpoint && event.results.has(endpoint), `${eventId} was not for ${endpointId}`)
    if (event.results.get(endpoint) === 'delivered') this.repeated++
    else if (outcome === 'delivered') this.delivered++
    else this.failed++
    event.results.set(endpoint, outcome)
  }

  /** Enters that an endpoint no longer gets deliveries. */
  close(endpointId: string, state: 'disabled' | 'removed'): void {
    const endpoint = this.endpoints.get(endpointId)
    assert.ok(endpoint, `nobody registered ${endpointId}`)
    Object.assign(endpoint, { state, wasClosed: true })
  }

  /** Enters that the failed deliveries of an endpoint are due again. */
  reopen(endpoint: LedgerEndpoint): void {
    for (const { results } of this.events.values())
      if (results.get(endpoint) === 'failed') results.set(endpoint, undefined)
  }

  /** Forgets what an organization had. */
  forget(organizationId: string): void {
    for (const [id, event] of this.events) if (event.organizationId === organizationId) this.events.delete(id)
    for (const [id, endpoint] of this.endpoints)
      if (endpoint.organizationId === organizationId) this.endpoints.delete(id)
  }
}

interface DeliveryRow {
  readonly event_id: string
  readonly endpoint_id: string
  readonly state: string
}

/** The deliveries that an audit found, by state. */
export type Found = Record<string, number>

/**
 * Compares every delivery in the database with the ledger: each event exactly once for each endpoint that wanted the event, in the
 * state that the ledger expects, unless the retention is over. Afterwards the ledger forgets the purged events.
 */
export async function auditDeliveries(
  sql: Sql,
  ledger: Ledger,
  organizations: readonly string[],
  retentionMs: number,
): Promise<Found> {
  const found: Found = {}
  const seen = new Map<LedgerEvent, Set<LedgerEndpoint>>()
  const rows = sql<DeliveryRow[]>`
    select event_id, endpoint_id, state from ${everyDelivery(sql)} as delivery
     where organization_id in ${sql([...organizations])}`
  for await (const page of rows.cursor(5000)) {
    for (const { event_id: eventId, endpoint_id: endpointId, state } of page) {
      const event = ledger.events.get(eventId)
      const endpoint = ledger.endpoints.get(endpointId)
      assert.ok(
        event && endpoint && event.results.has(endpoint),
        `nobody published ${eventId} to ${endpointId}`,
      )
      const those = seen.get(event) ?? new Set()
      assert.ok(!those.has(endpoint), `${eventId} has two deliveries to ${endpointId}`)
      seen.set(event, those.add(endpoint))
      const expected = expectedStates(endpoint, event.results.get(endpoint))
      assert.ok(
        expected.includes(state),
        `${eventId} to ${endpointId} (${endpoint.state}, ${endpoint.behaviour}) is ${state} instead of ${expected}`,
      )
      found[state] = (found[state] ?? 0) + 1
    }
  }
  const oldBefore = Date.now() - retentionMs
  for (const [eventId, event] of ledger.events) {
    const those = seen.get(event)?.size ?? 0
    if (those === event.results.size && those > 0) continue
    if (event.results.size === 0) {
      if (event.publishedAt < oldBefore) ledger.events.delete(eventId)
      continue
    }
    assert.equal(those, 0, `${eventId} has ${those} of ${event.results.size} deliveries`)
    assert.ok(event.publishedAt < oldBefore, `${eventId} is lost`)
    for (const [endpoint, result] of event.results)
      assert.ok(result || endpoint.wasClosed, `${eventId} was purged before ${endpoint.id} had it`)
    ledger.events.delete(eventId)
  }
  return found
}

function expectedStates(endpoint: LedgerEndpoint, result: string | undefined): readonly string[] {
  if (result !== undefined) return [result]
  if (endpoint.wasClosed) return ['skipped']
  return endpoint.state === 'paused' || endpoint.behaviour === 'failing' ? ['pending'] : ['delivered']
}
