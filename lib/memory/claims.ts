import type { ClaimedDelivery, ClaimRef, ClaimRequest, Claims, EndpointRef } from '../webhooks/claims.ts'
import { allowanceOf, createEndpointRate, spend } from '../webhooks/endpoint-rate.ts'
import { reclaimExpiredLeases, release } from './attempts.ts'
import { placeOf, targetOf } from './endpoints.ts'
import { ENDPOINT_DISABLED } from './events.ts'
import type { Memory, StoredDelivery, StoredEndpoint } from './state.ts'

/** The cursor before the first endpoint. */
const START: EndpointRef = { organizationId: '', endpointId: '' }

/** Claims due deliveries. See `ClaimStore.claim`. */
export function claim(memory: Memory, request: ClaimRequest): Claims {
  const now = memory.clock()
  const failed = reclaimExpiredLeases(memory, request.maxAttempts, now)
  const repeated = request.isRepeat ? findClaimed(memory, request.token) : []
  const { found, next, nextInMs } = findDue(memory, repeated, request, now)
  const { whole, unread, last } = cutToBytes([...repeated, ...found], request.maxBytes)
  const claimed = new Set([...whole, ...unread])
  release(memory, repeated.filter((delivery) => !claimed.has(delivery)).map(claimRefOf))
  for (const delivery of found) if (claimed.has(delivery)) take(memory, delivery, request, now)
  return {
    deliveries: whole.map((delivery) => show(delivery, now)),
    unread: unread.map(({ id, endpoint }) => ({ ...refOf(endpoint), id })),
    failed,
    storeTime: now,
    next: last === null ? next : refOf(last.endpoint),
    nextInMs,
  }
}

/** Reads the contents of deliveries whose claim is still active. See `ClaimStore.read`. */
export function readClaims(memory: Memory, claims: readonly ClaimRef[]): readonly ClaimedDelivery[] {
  const now = memory.clock()
  return claims.flatMap(({ organizationId, deliveryId, token }) => {
    const delivery = memory.organization(organizationId).deliveries.get(deliveryId)
    const isReadable = delivery?.claim?.token === token && !delivery.endpoint.isRemoved
    return isReadable ? [show(delivery, now)] : []
  })
}

/**
 * Finds due deliveries in round-robin order, on top of those from a repeated claim. Backfills get any spare capacity.
 *
 * @returns the deliveries and the cursor for the next claim
 */
function findDue(
  memory: Memory,
  repeated: readonly StoredDelivery[],
  request: ClaimRequest,
  now: number,
): Pick<Claims, 'next' | 'nextInMs'> & { readonly found: readonly StoredDelivery[] } {
  let turnMs = Number.POSITIVE_INFINITY
  const found: StoredDelivery[] = []
  const backfills: StoredDelivery[] = []
  let next: EndpointRef | null = null
  let last = request.cursor ?? START
  let inspected = 0
  for (const endpoint of endpointsAfter(memory, last)) {
    const claimed = [...repeated, ...found]
    if (inspected === request.scanLimit || claimed.length >= request.limit) {
      next = last
      break
    }
    inspected++
    last = refOf(endpoint)
    if (isClosed(endpoint)) skipSome(memory, endpoint, now)
    if (endpoint.state !== 'enabled' || endpoint.isRemoved) continue
    const due = dueOf(endpoint, claimed, request, now)
    if (due.length === 0) continue
    const { allowance, nextInMs } = spendRate(memory, endpoint, due.length, request, now)
    turnMs = Math.min(turnMs, nextInMs ?? turnMs)
    for (const delivery of due.slice(0, allowance)) {
      ;(delivery.isBackfill ? backfills : found).push(delivery)
    }
  }
  let served: EndpointRef | null = null
  let isLeft = false
  for (const delivery of backfills) {
    isLeft = repeated.length + found.length >= request.limit
    if (isLeft) break
    if (capacityFor(delivery.endpoint, [...repeated, ...found], request) === 0) continue
    found.push(delivery)
    served = refOf(delivery.endpoint)
  }
  return { found, next: next ?? (isLeft ? served : null), nextInMs: Number.isFinite(turnMs) ? turnMs : null }
}

/** Uses up the endpoint's rate for up to `due` deliveries. The result says how long until its next turn. */
function spendRate(
  { sending }: Memory,
  endpoint: StoredEndpoint,
  due: number,
  { token }: ClaimRequest,
  now: number,
): Pick<Claims, 'nextInMs'> & { readonly allowance: number } {
  const { maxPerSecond } = endpoint.record
  if (maxPerSecond !== null) endpoint.rate ??= createEndpointRate(maxPerSecond)
  const { rate } = endpoint
  if (rate === null) return { allowance: due, nextInMs: null }
  const isProbing = [...sending].some(
    (other) => other.endpoint === endpoint && other.claim?.token === rate.probe,
  )
  const allowance = Math.min(due, allowanceOf(rate, isProbing, now))
  return { allowance, nextInMs: spend(rate, allowance, token, now) }
}

/** Separates deliveries whose bodies fit together from those with an oversized body. */
function cutToBytes(
  deliveries: readonly StoredDelivery[],
  maxBytes: number,
): {
  readonly whole: readonly StoredDelivery[]
  readonly unread: readonly StoredDelivery[]
  /** The last delivery before the cutoff, or `null` if nothing was truncated. */
  readonly last: StoredDelivery | null
} {
  const whole: StoredDelivery[] = []
  const unread: StoredDelivery[] = []
  let bytes = 0
  for (const [index, delivery] of deliveries.entries()) {
    const size = Buffer.byteLength(delivery.event.body)
    if (maxBytes === 0 || size > maxBytes) {
      unread.push(delivery)
    } else if (bytes + size > maxBytes) {
      return { whole, unread, last: deliveries[index - 1] ?? null }
    } else {
      bytes += size
      whole.push(delivery)
    }
  }
  return { whole, unread, last: null }
}

/** Finds deliveries from an earlier claim whose response was lost. Skips removed endpoints, which have no secret. */
function findClaimed(memory: Memory, token: string): StoredDelivery[] {
  return [...memory.sending].filter((delivery) => {
    return delivery.claim?.token === token && !delivery.endpoint.isRemoved
  })
}

/** Returns all endpoints with pending deliveries, starting after the cursor and wrapping around. */
function endpointsAfter(memory: Memory, cursor: EndpointRef): readonly StoredEndpoint[] {
  const endpoints = [...memory.organizations()]
    .flatMap((organization) => [...organization.endpoints.values()])
    .filter(({ pending }) => pending.size > 0)
    .sort((one, other) => (placeOf(refOf(one)) < placeOf(refOf(other)) ? -1 : 1))
  const first = endpoints.findIndex((endpoint) => placeOf(refOf(endpoint)) > placeOf(cursor))
  return first < 0 ? endpoints : [...endpoints.slice(first), ...endpoints.slice(0, first)]
}

function refOf({ organizationId, record }: StoredEndpoint): EndpointRef {
  return { organizationId, endpointId: record.id }
}

function claimRefOf({ id, endpoint, claim }: StoredDelivery): ClaimRef {
  return { organizationId: endpoint.organizationId, deliveryId: id, token: claim?.token ?? '' }
}

// --- A single endpoint ---

/** Maximum number of an endpoint's deliveries to skip per claim. */
const SKIPPED_AT_ONCE = 500

function isClosed({ isRemoved, state }: StoredEndpoint): boolean {
  return isRemoved || state === 'disabled'
}

function skipSome(memory: Memory, { pending }: StoredEndpoint, now: number): void {
  for (const delivery of [...pending].slice(0, SKIPPED_AT_ONCE)) {
    memory.move(delivery, { state: 'skipped', reason: ENDPOINT_DISABLED, finishedAt: now })
  }
}

/** Finds an endpoint's due deliveries, up to the capacity not yet used by this claim. */
function dueOf(
  endpoint: StoredEndpoint,
  claimed: readonly StoredDelivery[],
  request: ClaimRequest,
  now: number,
): readonly StoredDelivery[] {
  return [...endpoint.pending]
    .filter((delivery) => delivery.dueAt <= now)
    .sort((one, other) => priorityOf(one) - priorityOf(other) || one.dueAt - other.dueAt)
    .slice(0, capacityFor(endpoint, claimed, request))
}

function take(memory: Memory, delivery: StoredDelivery, { token, leaseMs }: ClaimRequest, now: number): void {
  memory.move(delivery, {
    state: 'sending',
    attempts: delivery.attempts + 1,
    claim: { token, claimedAt: now, leaseUntil: now + leaseMs },
  })
}

/** Returns 0 for first attempts, 1 for retries and 2 for backfills. */
function priorityOf({ attempts, attemptsBefore, isBackfill }: StoredDelivery): number {
  if (isBackfill) return 2
  return attempts > attemptsBefore ? 1 : 0
}

function capacityFor(
  { organizationId, record: { id } }: StoredEndpoint,
  claimed: readonly StoredDelivery[],
  { limit, capacity }: ClaimRequest,
): number {
  const ofOrganization = claimed.filter(({ endpoint }) => endpoint.organizationId === organizationId)
  const ofEndpoint = ofOrganization.filter(({ endpoint }) => endpoint.record.id === id)
  const left = Math.min(
    limit - claimed.length,
    listed(capacity.organizations, organizationId, capacity.organization) - ofOrganization.length,
    listed(capacity.endpoints, id, capacity.endpoint) - ofEndpoint.length,
  )
  return Math.max(0, left)
}

/** Only look at own properties, because an organization's id could be `constructor`. */
function listed(capacities: Readonly<Record<string, number>>, id: string, otherwise: number): number {
  return (Object.hasOwn(capacities, id) ? capacities[id] : undefined) ?? otherwise
}

// --- Result ---

function show(
  { id, event, endpoint, attempts, attemptsBefore }: StoredDelivery,
  now: number,
): ClaimedDelivery {
  return {
    ...refOf(endpoint),
    id,
    eventId: event.id,
    type: event.type,
    body: event.body,
    ...targetOf(endpoint, now),
    attempt: attempts - attemptsBefore,
    ...(event.traceparent === undefined ? {} : { traceparent: event.traceparent }),
  }
}
