import type { AttemptResult, ClaimRef, EndpointHealth, FailureLimit } from '../webhooks/deliveries.ts'
import { toTimestamp } from '../writes/write-context.ts'
import type { KeptEndpoint } from './state.ts'

// The health of endpoints, judged by the results of attempts.

/** Judges an endpoint after some attempts; null if no attempt failed, or if the endpoint no longer exists. */
export function judge(
  endpoint: KeptEndpoint,
  results: readonly AttemptResult[],
  limit: FailureLimit,
  now: number,
): EndpointHealth | null {
  if (endpoint.isRemoved) return null
  // Sorted by the end of the attempts, because a success ends a row of failures.
  for (const result of results.toSorted((one, other) => other.endedAgoMs - one.endedAgoMs)) {
    count(endpoint, result, now)
  }
  const failed = results.findLast(isFailure)
  if (!failed) return null
  const reason = results.some(({ isGone }) => isGone) ? 'gone' : isFailing(endpoint, limit, now) && 'failing'
  const isNewlyDisabled = reason !== false && endpoint.state !== 'disabled'
  const isNewlyFailing = !isNewlyDisabled && isNewsOf(endpoint, limit)
  if (isNewlyDisabled) disable(endpoint, reason)
  if (isNewlyDisabled || isNewlyFailing) endpoint.noticedAttempt = nameOf(failed)
  return { ...healthOf(endpoint), isNewlyFailing, isNewlyDisabled }
}

/** Returns the health of an endpoint that an earlier written result made failing or disabled; null for every other endpoint. */
export function recall(endpoint: KeptEndpoint, result: ClaimRef, limit: FailureLimit): EndpointHealth | null {
  const { isRemoved, noticedAttempt, state, disabledReason } = endpoint
  if (isRemoved || noticedAttempt !== nameOf(result)) return null
  // An administrator may have enabled or disabled the endpoint after the attempt.
  const isNewlyFailing = state !== 'disabled' && hasHalfFailed(endpoint, limit)
  const isNewlyDisabled = state === 'disabled' && disabledReason !== 'administrator'
  return { ...healthOf(endpoint), isNewlyFailing, isNewlyDisabled }
}

/** Names an attempt. */
function nameOf({ token, deliveryId }: ClaimRef): string {
  return `${token} ${deliveryId}`
}

function count(endpoint: KeptEndpoint, result: AttemptResult, now: number): void {
  if (isFailure(result)) {
    if (endpoint.failingSince === null) endpoint.noticedAttempt = null
    endpoint.failures++
    endpoint.failingSince ??= now - result.endedAgoMs
  } else if (result.outcome === 'delivered') {
    endpoint.failures = 0
    endpoint.failingSince = null
  }
}

/** True for an attempt that says something about the endpoint: interrupted attempts and attempts that were never made do not. */
function isFailure({ outcome, error }: AttemptResult): boolean {
  return outcome !== 'delivered' && error !== 'interrupted' && error !== 'unreadable'
}

function isFailing({ failures, failingSince }: KeptEndpoint, limit: FailureLimit, now: number): boolean {
  return failingSince !== null && failures >= limit.failures && now - failingSince >= limit.failingMs
}

/** True for a failing endpoint without a notice so far. */
function isNewsOf(endpoint: KeptEndpoint, limit: FailureLimit): boolean {
  return endpoint.state !== 'disabled' && endpoint.noticedAttempt === null && hasHalfFailed(endpoint, limit)
}

function hasHalfFailed({ failures }: KeptEndpoint, limit: FailureLimit): boolean {
  return failures * 2 >= limit.failures
}

function disable(endpoint: KeptEndpoint, reason: string): void {
  endpoint.state = 'disabled'
  endpoint.disabledReason = reason
}

function healthOf({
  organizationId,
  record: { id: endpointId },
  state,
  disabledReason,
  failures,
  failingSince,
}: KeptEndpoint): Omit<EndpointHealth, 'isNewlyFailing' | 'isNewlyDisabled'> {
  const since = failingSince === null ? null : toTimestamp(failingSince)
  return { organizationId, endpointId, state, disabledReason, failures, failingSince: since }
}
