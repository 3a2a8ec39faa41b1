import type { ClaimedDelivery, ClaimRequest, Claims, EndpointRef } from '../deliveries.ts'
import { endLeases } from './attempts.ts'
import { sealedSecretsOf } from './endpoints.ts'
import { ENDPOINT_DISABLED } from './events.ts'
import type { KeptDelivery, KeptEndpoint, Memory } from './memory.ts'

/** Comes before every endpoint. */
const START: EndpointRef = { organizationId: '', endpointId: '' }

/** Claims deliveries that are due: see `DeliveryStore.claim`. */
export function claim(memory: Memory, request: ClaimRequest): Claims {
  const now = memory.clock()
  const deadLetters = endLeases(memory, request.maxAttempts, now)
  const answer = (next: EndpointRef | null): Claims => ({
    deliveries: claimed.map((delivery) => show(delivery, now)),
    deadLetters,
    storeTime: now,
    next,
  })
  const claimed = request.isRepeat ? findClaimed(memory, request.token) : []
  let last = request.after ?? START
  let visits = 0
  for (const endpoint of circleAfter(memory, last)) {
    if (visits === request.visits || claimed.length >= request.limit) return answer(last)
    visits++
    last = refOf(endpoint)
    if (isClosed(endpoint)) skipSome(memory, endpoint, now)
    else if (endpoint.state === 'enabled') claimed.push(...claimFrom(memory, endpoint, claimed, request, now))
  }
  return answer(null)
}

/** What a claim whose answer was lost has taken, as it was given. A removed endpoint has no secret to sign with. */
function findClaimed(memory: Memory, token: string): KeptDelivery[] {
  return [...memory.inFlight].filter((delivery) => {
    return delivery.claim?.token === token && !delivery.endpoint.isRemoved
  })
}

/** Every endpoint with something pending: those after a place in their order, then those up to it. */
function circleAfter(memory: Memory, place: EndpointRef): readonly KeptEndpoint[] {
  const endpoints = [...memory.organizations()]
    .flatMap((organization) => [...organization.endpoints.values()])
    .filter(({ pending }) => pending.size > 0)
    .sort((one, other) => compare(refOf(one), refOf(other)))
  const first = endpoints.findIndex((endpoint) => compare(refOf(endpoint), place) > 0)
  return first < 0 ? endpoints : [...endpoints.slice(first), ...endpoints.slice(0, first)]
}

function compare(one: EndpointRef, other: EndpointRef): number {
  return (
    compareTexts(one.organizationId, other.organizationId) || compareTexts(one.endpointId, other.endpointId)
  )
}

function compareTexts(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

function refOf({ organizationId, record }: KeptEndpoint): EndpointRef {
  return { organizationId, endpointId: record.id }
}

// --- One endpoint ---

/** Of an endpoint, with each claim that meets it. */
const SKIPPED_AT_ONCE = 500

function isClosed({ isRemoved, state }: KeptEndpoint): boolean {
  return isRemoved || state === 'disabled'
}

function skipSome(memory: Memory, { pending }: KeptEndpoint, now: number): void {
  for (const delivery of [...pending].slice(0, SKIPPED_AT_ONCE)) {
    memory.move(delivery, { state: 'skipped', reason: ENDPOINT_DISABLED, finishedAt: now })
  }
}

/** Claims what is due of an endpoint, as far as there is room beside what is claimed already. */
function claimFrom(
  memory: Memory,
  endpoint: KeptEndpoint,
  claimed: readonly KeptDelivery[],
  request: ClaimRequest,
  now: number,
): readonly KeptDelivery[] {
  const { token, leaseMs } = request
  const due = [...endpoint.pending]
    .filter(({ dueAt }) => dueAt <= now)
    .sort(byTurn)
    .slice(0, roomFor(endpoint, claimed, request))
  for (const delivery of due) {
    memory.move(delivery, {
      state: 'in_flight',
      attempts: delivery.attempts + 1,
      claim: { token, claimedAt: now, leaseUntil: now + leaseMs },
    })
  }
  return due
}

/** First attempts before retries, then what has been due for longer. */
function byTurn(one: KeptDelivery, other: KeptDelivery): number {
  return Number(isRetry(one)) - Number(isRetry(other)) || one.dueAt - other.dueAt
}

function isRetry({ attempts, attemptsBefore }: KeptDelivery): boolean {
  return attempts > attemptsBefore
}

function roomFor(
  { organizationId, record: { id } }: KeptEndpoint,
  claimed: readonly KeptDelivery[],
  { limit, room }: ClaimRequest,
): number {
  const ofOrganization = claimed.filter(({ endpoint }) => endpoint.organizationId === organizationId)
  const ofEndpoint = ofOrganization.filter(({ endpoint }) => endpoint.record.id === id)
  const left = Math.min(
    limit - claimed.length,
    named(room.organizations, organizationId, room.organization) - ofOrganization.length,
    named(room.endpoints, id, room.endpoint) - ofEndpoint.length,
  )
  return Math.max(0, left)
}

/** An organization may be called `constructor`. */
function named(rooms: Readonly<Record<string, number>>, id: string, otherwise: number): number {
  return (Object.hasOwn(rooms, id) ? rooms[id] : undefined) ?? otherwise
}

// --- The answer ---

function show({ id, event, endpoint, attempts, attemptsBefore }: KeptDelivery, now: number): ClaimedDelivery {
  const { url, headers } = endpoint.record
  return {
    ...refOf(endpoint),
    id,
    eventId: event.id,
    type: event.type,
    body: event.body,
    url,
    headers: { ...headers },
    sealedSecrets: sealedSecretsOf(endpoint, now),
    attempt: attempts - attemptsBefore,
  }
}
