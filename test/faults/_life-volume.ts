import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { AttemptResult, ClaimedDelivery, ClaimRequest, Claims } from '../../lib/webhooks/claims.ts'
import type { Ledger, LedgerEndpoint } from './_life-ledger.ts'

// The deliveries of a long life that go through the verbs of a store: published, claimed and recorded in big batches.

/** When an endpoint is disabled: as a loop has it. */
export const FAILURE_LIMIT = { failures: 50, failingMs: 5 * 24 * 60 * 60 * 1000 }
const RETRY_DELAYS_MS = [30_000, 60_000, 120_000, 240_000]
/** The waits of a day after which every delivery has had its attempts. */
export const WAITS_MS: readonly number[] = RETRY_DELAYS_MS.map((delayMs) => delayMs + 1000)
const LEASE_MS = 30_000
const BATCH = 500

/** Statements that were sent again. */
export const retried = { count: 0 }

/** Sends again whatever a dead connection or server has cut off, for half a minute. */
export async function insist<T>(work: (isRepeat: boolean) => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + 30_000
  for (let isRepeat = false; ; isRepeat = true) {
    try {
      return await work(isRepeat)
    } catch (error) {
      if (performance.now() > giveUpAt || !isCutOff(error)) throw error
      retried.count++
      await sleep(50)
    }
  }
}

function isCutOff(error: unknown): boolean {
  const code = String((error as { code?: unknown } | null)?.code)
  return /^(store_unavailable|CONNECTION_|ECONN|EPIPE|57P0|idempotency_key_in_use)/.test(code)
}

/** An event of the volume, with an id of the host's. */
export interface VolumeEvent {
  readonly id: string
  readonly type: string
  readonly data: object
  readonly traceparent?: string
}

/** Publishes events in a statement; a second call of the same events changes nothing. */
export async function publishBatch(
  sql: Sql,
  ledger: Ledger,
  organizationId: string,
  events: readonly VolumeEvent[],
): Promise<void> {
  const traced = events.some(({ traceparent }) => traceparent !== undefined)
  for (const { id, type } of events) ledger.enter(organizationId, id, type, Date.now())
  await insist(
    () => sql`
      select count(business_api.publish_event(
        ${organizationId}, e.type, e.data, e.id ${traced ? sql`, e.traceparent` : sql``}
      ))
        from jsonb_to_recordset(${JSON.stringify(events)}::text::jsonb)
          as e (id text, type text, data jsonb, traceparent text)`,
  )
}

/** What a drain needs. */
export interface Volume {
  readonly store: BusinessApiStore
  readonly ledger: Ledger
  /** Organizations that a loop serves. */
  readonly without: readonly string[]
}

function requestOf({ without }: Volume, changes: Partial<ClaimRequest>): ClaimRequest {
  return {
    token: randomUUID(),
    isRepeat: false,
    limit: BATCH,
    maxBytes: 4 * 1024 * 1024,
    capacity: {
      endpoint: BATCH,
      organization: BATCH,
      endpoints: {},
      organizations: Object.fromEntries(without.map((id) => [id, 0])),
    },
    scanLimit: 1000,
    cursor: null,
    leaseMs: LEASE_MS,
    maxAttempts: RETRY_DELAYS_MS.length + 1,
    ...changes,
  }
}

/** Claims deliveries and dies: the attempts count as interrupted. */
export async function dieWithClaims(volume: Volume): Promise<number> {
  const { deliveries } = await insist((isRepeat) =>
    volume.store.deliveries.claim(requestOf(volume, { limit: 50, isRepeat })),
  )
  return deliveries.length
}

/** Delivers all that is due, by some workers at once. */
export async function drain(volume: Volume, workers = 3): Promise<void> {
  const work = async (): Promise<void> => {
    let cursor: Claims['next'] = null
    for (;;) {
      const request = requestOf(volume, { cursor })
      const claims: Claims = await insist((isRepeat) =>
        volume.store.deliveries.claim({ ...request, isRepeat }),
      )
      cursor = claims.next
      for (const { eventId, endpointId } of claims.failed)
        volume.ledger.conclude(eventId, endpointId, 'failed')
      if (claims.deliveries.length > 0) await attemptAll(volume, claims.deliveries, request.token)
      else if (cursor === null) return
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
}

async function attemptAll(
  { store, ledger }: Volume,
  deliveries: readonly ClaimedDelivery[],
  token: string,
): Promise<void> {
  const results = deliveries.map((delivery) => attempt(ledger, delivery, token))
  const { lost, endpoints } = await insist(() => store.deliveries.writeResults(results, FAILURE_LIMIT))
  for (const { endpointId, state } of endpoints) if (state === 'disabled') ledger.close(endpointId, state)
  const lostIds = new Set(lost.map(({ deliveryId }) => deliveryId))
  for (const [index, { id, eventId, endpointId }] of deliveries.entries())
    if (!lostIds.has(id)) ledger.conclude(eventId, endpointId, results[index]?.outcome ?? 'retry')
}

function attempt(ledger: Ledger, delivery: ClaimedDelivery, token: string): AttemptResult {
  const endpoint = ledger.endpoints.get(delivery.endpointId)
  assert.ok(endpoint, `nobody registered ${delivery.endpointId}`)
  assert.notEqual(endpoint.state, 'paused', `${endpoint.id} is paused`)
  const secrets = endpoint.overlapUntil > Date.now() ? 2 : 1
  // A minute around the end of an overlap is anybody's.
  if (Math.abs(endpoint.overlapUntil - Date.now()) > 60_000)
    assert.equal(delivery.sealedSecrets.length, secrets, `${endpoint.id} signs with the secrets in force`)
  if (delivery.eventId.endsWith('traced'))
    assert.equal(delivery.traceparent, TRACEPARENT, `${delivery.eventId} has lost its trace`)
  else assert.equal(delivery.traceparent, undefined)
  const status = answerOf(endpoint, delivery)
  const delayMs = RETRY_DELAYS_MS[delivery.attempt - 1]
  const isGone = status === 410
  const outcome = status === 200 ? 'delivered' : delayMs === undefined || isGone ? 'failed' : 'retry'
  return {
    organizationId: delivery.organizationId,
    deliveryId: delivery.id,
    token,
    outcome,
    reason: outcome === 'failed' ? `http_${status}` : null,
    isGone,
    delayMs: outcome === 'retry' ? (delayMs ?? 0) : 0,
    backOffMs: null,
    startedAgoMs: 30,
    endedAgoMs: 10,
    durationMs: 20,
    dnsMs: null,
    connectMs: null,
    tlsMs: null,
    firstByteMs: 4,
    status,
    error: null,
    bodyExcerpt: status === 200 ? '' : 'no',
  }
}

/** The trace of a few events. */
export const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

function answerOf({ behaviour }: LedgerEndpoint, { eventId, attempt: number }: ClaimedDelivery): number {
  if (behaviour === 'gone') return 410
  if (behaviour === 'failing') return 500
  return behaviour === 'flaky' && number === 1 && eventId.charCodeAt(eventId.length - 1) === 48 ? 503 : 200
}
