import type {
  AttemptResult,
  ClaimRef,
  EndedAttempt,
  EndpointHealth,
  FailedDelivery,
  FailureLimit,
  ResultReport,
} from '../webhooks/claims.ts'
import { createEndpointRate, judgeRate } from '../webhooks/endpoint-rate.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { countLastAttempt } from './activity.ts'
import type { DeliveryProgress, Memory, StoredDelivery, StoredEndpoint } from './state.ts'

// A claim ends when the attempt's result is written, the claim is released or its lease expires.

/** Writes attempt results. See `ClaimStore.writeResults`. */
export function writeResults(
  memory: Memory,
  results: readonly AttemptResult[],
  limit: FailureLimit,
): ResultReport {
  const now = memory.clock()
  const written = new Map<StoredEndpoint, AttemptResult[]>()
  const failed: FailedDelivery[] = []
  const lost: ClaimRef[] = []
  const repeated: [StoredEndpoint, AttemptResult][] = []
  for (const result of results) {
    const delivery = find(memory, result)
    if (!delivery || (!isInForce(delivery, result) && !isLogged(delivery, result)))
      lost.push(claimRefOf(result))
    if (!delivery) continue
    const { endpoint } = delivery
    if (isInForce(delivery, result)) {
      writeResult(memory, delivery, result, now)
      written.set(endpoint, [...(written.get(endpoint) ?? []), result])
    } else {
      repeated.push([endpoint, result])
    }
    if (isFailureOf(delivery, result)) failed.push(failedDeliveryOf(delivery))
  }
  for (const [endpoint, ended] of written) judgeRateOf(endpoint, ended, now)
  const judged = [...written].flatMap(([endpoint, ended]) => judge(endpoint, ended, limit, now) ?? [])
  const recalled = repeated.flatMap(([endpoint, result]) => recall(endpoint, result, limit) ?? [])
  return { lost, endpoints: [...judged, ...recalled], failed }
}

/** Releases claims. The deliveries are still due, and the attempts don't count. */
export function release(memory: Memory, claims: readonly ClaimRef[]): void {
  for (const claim of claims) {
    const delivery = find(memory, claim)
    if (!delivery || !isInForce(delivery, claim)) continue
    memory.move(delivery, { state: 'pending', attempts: delivery.attempts - 1, claim: null })
    memory.wakeUp.signal()
  }
}

/**
 * Reclaims deliveries whose lease has expired. The attempt counts, since the request may have gone through.
 *
 * @returns the deliveries that failed because this was their last attempt
 */
export function reclaimExpiredLeases(
  memory: Memory,
  maxAttempts: number,
  now: number,
): readonly FailedDelivery[] {
  const failed: FailedDelivery[] = []
  for (const delivery of [...memory.sending]) {
    const { claim, attempts, attemptsBefore } = delivery
    if (claim === null || claim.leaseUntil > now) continue
    log(delivery, claim.claimedAt, { ...INTERRUPTED, durationMs: claim.leaseUntil - claim.claimedAt })
    const wasLast = attempts - attemptsBefore >= maxAttempts
    countLastAttempt(memory, delivery, wasLast ? 'failed' : 'retry')
    const next: Partial<DeliveryProgress> = wasLast
      ? { state: 'failed', reason: 'interrupted', finishedAt: now }
      : { state: 'pending', dueAt: now }
    memory.move(delivery, { ...next, claim: null })
    if (wasLast) failed.push(failedDeliveryOf(delivery))
  }
  return failed
}

function find(memory: Memory, { organizationId, deliveryId }: ClaimRef): StoredDelivery | undefined {
  return memory.organization(organizationId).deliveries.get(deliveryId)
}

function claimRefOf({ organizationId, deliveryId, token }: ClaimRef): ClaimRef {
  return { organizationId, deliveryId, token }
}

/** Returns `true` if an earlier call, whose response was lost, already wrote the result. */
function isLogged({ attemptLog }: StoredDelivery, { durationMs, status, error }: AttemptResult): boolean {
  return attemptLog.some(
    (attempt) => attempt.durationMs === durationMs && attempt.status === status && attempt.error === error,
  )
}

function isInForce({ claim }: StoredDelivery, { token }: ClaimRef): boolean {
  return claim?.token === token
}

// --- Delivery log ---

/** The log entry for an attempt whose process was terminated. The duration is added later. */
const INTERRUPTED = {
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  firstByteMs: null,
  status: null,
  error: 'interrupted',
  bodyExcerpt: '',
} as const

function writeResult(memory: Memory, delivery: StoredDelivery, result: AttemptResult, now: number): void {
  const { outcome, reason, delayMs, startedAgoMs } = result
  const endedAt = now - result.endedAgoMs
  log(delivery, now - startedAgoMs, result)
  countLastAttempt(memory, delivery, outcome)
  const next: Partial<DeliveryProgress> =
    outcome === 'retry'
      ? { state: 'pending', dueAt: endedAt + delayMs }
      : { state: outcome, reason, finishedAt: endedAt }
  memory.move(delivery, { ...next, claim: null })
}

function log({ attempts, attemptLog }: StoredDelivery, startedAt: number, attempt: EndedAttempt): void {
  const { durationMs, dnsMs, connectMs, tlsMs, firstByteMs, status, error, bodyExcerpt } = attempt
  const timings = { durationMs, dnsMs, connectMs, tlsMs, firstByteMs }
  const entry = {
    number: attempts,
    startedAt: toTimestamp(startedAt),
    ...timings,
    status,
    error,
    bodyExcerpt,
    location: attempt.location ?? null,
    headers: attempt.headers ?? null,
  }
  attemptLog.push(Object.freeze(entry))
}

/** Returns `true` if this result made the delivery fail, now or in an earlier call, or `false` if it came too late. */
function isFailureOf({ state, reason }: StoredDelivery, result: AttemptResult): boolean {
  return state === 'failed' && result.outcome === 'failed' && reason === result.reason
}

function failedDeliveryOf({ id: deliveryId, endpoint, event, reason }: StoredDelivery): FailedDelivery {
  const { organizationId, record } = endpoint
  const { id: eventId, type } = event
  return { organizationId, endpointId: record.id, deliveryId, eventId, type, reason: reason ?? '' }
}

// --- Endpoint rate ---

function judgeRateOf(endpoint: StoredEndpoint, results: readonly AttemptResult[], now: number): void {
  const latest = (some: readonly AttemptResult[]): number | null =>
    some.length === 0 ? null : now - Math.min(...some.map(({ startedAgoMs }) => startedAgoMs))
  const successes = results.filter(({ outcome }) => outcome === 'delivered')
  const rejections = results.filter(({ backOffMs }) => backOffMs !== null)
  if (rejections.length > 0) endpoint.rate ??= createEndpointRate(endpoint.record.maxPerSecond)
  if (endpoint.rate === null) return
  const judged = {
    successes: successes.length,
    tokens: results.map(({ token }) => token),
    successAt: latest(successes),
    rejectionAt: latest(rejections),
    hasFailure: results.some(isFailure),
    askedMs: Math.max(0, ...rejections.map(({ backOffMs }) => backOffMs ?? 0)),
    failures: endpoint.failures,
    hasDue: [...endpoint.pending].some(({ dueAt }) => dueAt <= now),
  }
  if (!judgeRate(endpoint.rate, judged, now)) endpoint.rate = null
}

// --- Endpoint health ---

/** Updates endpoint health after a batch of attempts. Returns `null` if none failed or the endpoint was removed. */
function judge(
  endpoint: StoredEndpoint,
  results: readonly AttemptResult[],
  limit: FailureLimit,
  now: number,
): EndpointHealth | null {
  if (endpoint.isRemoved) return null
  // Sort by end time, because a success resets the failure count.
  for (const result of results.toSorted((one, other) => other.endedAgoMs - one.endedAgoMs)) {
    count(endpoint, result, now)
  }
  const failed = results.findLast(isFailure)
  if (!failed) return null
  const reason = results.some(({ isGone }) => isGone) ? 'gone' : isFailing(endpoint, limit, now) && 'failing'
  const isNewlyDisabled = reason !== false && endpoint.state !== 'disabled'
  const isNewlyFailing = !isNewlyDisabled && isNewsOf(endpoint, limit)
  if (isNewlyDisabled) Object.assign(endpoint, { state: 'disabled', disabledReason: reason })
  if (isNewlyDisabled || isNewlyFailing) endpoint.noticedAttempt = nameOf(failed)
  return { ...healthOf(endpoint), isNewlyFailing, isNewlyDisabled }
}

/** Returns an endpoint's health if this earlier result made it failing or disabled it, otherwise `null`. */
function recall(endpoint: StoredEndpoint, result: ClaimRef, limit: FailureLimit): EndpointHealth | null {
  const { isRemoved, noticedAttempt, state, disabledReason } = endpoint
  if (isRemoved || noticedAttempt !== nameOf(result)) return null
  // An administrator may have enabled or disabled the endpoint in the meantime.
  const isNewlyFailing = state !== 'disabled' && hasHalfFailed(endpoint, limit)
  const isNewlyDisabled = state === 'disabled' && disabledReason !== 'administrator'
  return { ...healthOf(endpoint), isNewlyFailing, isNewlyDisabled }
}

function nameOf({ token, deliveryId }: ClaimRef): string {
  return `${token} ${deliveryId}`
}

function count(endpoint: StoredEndpoint, result: AttemptResult, now: number): void {
  if (isFailure(result)) {
    if (endpoint.failingSince === null) endpoint.noticedAttempt = null
    endpoint.failures++
    endpoint.failingSince ??= now - result.endedAgoMs
  } else if (result.outcome === 'delivered') {
    endpoint.failures = 0
    endpoint.failingSince = null
  }
}

/** Returns `true` if a failed attempt counts against the endpoint. Attempts interrupted or never made don't count. */
function isFailure({ outcome, error }: AttemptResult): boolean {
  return outcome !== 'delivered' && error !== 'interrupted' && error !== 'unreadable'
}

function isFailing({ failures, failingSince }: StoredEndpoint, limit: FailureLimit, now: number): boolean {
  return failingSince !== null && failures >= limit.failures && now - failingSince >= limit.failingMs
}

/** Returns `true` if the endpoint is failing and this hasn't been reported yet. */
function isNewsOf(endpoint: StoredEndpoint, limit: FailureLimit): boolean {
  return endpoint.state !== 'disabled' && endpoint.noticedAttempt === null && hasHalfFailed(endpoint, limit)
}

function hasHalfFailed({ failures }: StoredEndpoint, limit: FailureLimit): boolean {
  return failures * 2 >= limit.failures
}

function healthOf({
  organizationId,
  record: { id: endpointId },
  state,
  disabledReason,
  failures,
  failingSince,
}: StoredEndpoint): Omit<EndpointHealth, 'isNewlyFailing' | 'isNewlyDisabled'> {
  const since = failingSince === null ? null : toTimestamp(failingSince)
  return { organizationId, endpointId, state, disabledReason, failures, failingSince: since }
}
