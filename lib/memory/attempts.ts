import type { AttemptResult, ClaimRef, DeliveryAttempt, EndpointHealth, FailureLimit } from '../deliveries.ts'
import { toTimestamp } from '../making.ts'
import type { DeliveryProgress, KeptDelivery, KeptEndpoint, Memory } from './memory.ts'

// How a claim ends: by what became of the attempt, by being given back, or with its lease.

/** Records what became of attempts: see `DeliveryStore.record`. */
export function record(
  memory: Memory,
  results: readonly AttemptResult[],
  limit: FailureLimit,
): readonly EndpointHealth[] {
  const now = memory.clock()
  const recorded = new Map<KeptEndpoint, AttemptResult[]>()
  for (const result of results) {
    const delivery = findInForce(memory, result)
    if (!delivery) continue
    recordResult(memory, delivery, result, now)
    recorded.set(delivery.endpoint, [...(recorded.get(delivery.endpoint) ?? []), result])
  }
  return [...recorded].flatMap(([endpoint, ended]) => judge(endpoint, ended, limit, now) ?? [])
}

/** Gives claims back, due as before; the attempt is not counted. */
export function release(memory: Memory, claims: readonly ClaimRef[]): void {
  for (const claim of claims) {
    const delivery = findInForce(memory, claim)
    if (!delivery) continue
    memory.move(delivery, { state: 'pending', attempts: delivery.attempts - 1, claim: null })
    memory.due.announce()
  }
}

/** Sets free what a process had claimed that has ended: the attempt counts, as it may have reached the subscriber. */
export function endLeases(memory: Memory, maxAttempts: number, now: number): void {
  for (const delivery of [...memory.inFlight]) {
    const { claim, attempts, attemptsBefore } = delivery
    if (claim === null || claim.leaseUntil > now) continue
    log(delivery, claim.claimedAt, { ...INTERRUPTED, durationMs: claim.leaseUntil - claim.claimedAt })
    const wasLast = attempts - attemptsBefore >= maxAttempts
    const next: Partial<DeliveryProgress> = wasLast
      ? { state: 'dead_lettered', reason: 'interrupted', finishedAt: now }
      : { state: 'pending', dueAt: now }
    memory.move(delivery, { ...next, claim: null })
  }
}

function findInForce(
  memory: Memory,
  { organizationId, deliveryId, token }: ClaimRef,
): KeptDelivery | undefined {
  const delivery = memory.organization(organizationId).deliveries.get(deliveryId)
  return delivery?.claim?.token === token ? delivery : undefined
}

// --- The delivery and its log ---

/** What is known of an attempt whose process has ended, but for its duration. */
const INTERRUPTED = {
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  firstByteMs: null,
  status: null,
  error: 'interrupted',
  bodyExcerpt: '',
} as const

function recordResult(memory: Memory, delivery: KeptDelivery, result: AttemptResult, now: number): void {
  const { outcome, reason, delayMs, startedAgoMs } = result
  const endedAt = now - result.endedAgoMs
  log(delivery, now - startedAgoMs, result)
  const next: Partial<DeliveryProgress> =
    outcome === 'retry'
      ? { state: 'pending', dueAt: endedAt + delayMs }
      : { state: outcome, reason, finishedAt: endedAt }
  memory.move(delivery, { ...next, claim: null })
}

function log(
  { attempts, attemptLog }: KeptDelivery,
  startedAt: number,
  attempt: Omit<DeliveryAttempt, 'number' | 'startedAt'>,
): void {
  const { durationMs, dnsMs, connectMs, tlsMs, firstByteMs, status, error, bodyExcerpt } = attempt
  const timings = { durationMs, dnsMs, connectMs, tlsMs, firstByteMs }
  const entry = {
    number: attempts,
    startedAt: toTimestamp(startedAt),
    ...timings,
    status,
    error,
    bodyExcerpt,
  }
  attemptLog.push(Object.freeze(entry))
}

// --- The endpoint's health ---

/** How an endpoint stands after some attempts of it; null when none of them failed, or when there is no endpoint any more. */
function judge(
  endpoint: KeptEndpoint,
  results: readonly AttemptResult[],
  limit: FailureLimit,
  now: number,
): EndpointHealth | null {
  if (endpoint.isRemoved) return null
  // In the order in which they ended: a success ends a row of failures.
  for (const result of results.toSorted((one, other) => other.endedAgoMs - one.endedAgoMs)) {
    count(endpoint, result, now)
  }
  if (!results.some(isFailure)) return null
  const reason = results.some(({ isGone }) => isGone) ? 'gone' : isFailing(endpoint, limit, now) && 'failing'
  const isNewlyDisabled = reason !== false && endpoint.state !== 'disabled'
  if (isNewlyDisabled) disable(endpoint, reason)
  return { ...healthOf(endpoint), isNewlyDisabled }
}

function count(endpoint: KeptEndpoint, result: AttemptResult, now: number): void {
  if (isFailure(result)) {
    endpoint.failures++
    endpoint.failingSince ??= now - result.endedAgoMs
  } else if (result.outcome === 'delivered') {
    endpoint.failures = 0
    endpoint.failingSince = null
  }
}

/** An attempt that this side has interrupted says nothing of the endpoint. */
function isFailure({ outcome, error }: AttemptResult): boolean {
  return outcome !== 'delivered' && error !== 'interrupted'
}

function isFailing({ failures, failingSince }: KeptEndpoint, limit: FailureLimit, now: number): boolean {
  return failingSince !== null && failures >= limit.failures && now - failingSince >= limit.failingMs
}

function disable(endpoint: KeptEndpoint, reason: string): void {
  endpoint.state = 'disabled'
  endpoint.disabledReason = reason
}

function healthOf({
  organizationId,
  record: { id: endpointId },
  state,
  failures,
  failingSince,
}: KeptEndpoint): Omit<EndpointHealth, 'isNewlyDisabled'> {
  const since = failingSince === null ? null : toTimestamp(failingSince)
  return { organizationId, endpointId, state, failures, failingSince: since }
}
