import type {
  AttemptResult,
  ClaimRef,
  DeadLetter,
  DeliveryAttempt,
  FailureLimit,
  RecordReport,
} from '../deliveries.ts'
import { toTimestamp } from '../making.ts'
import { judge, recall } from './health.ts'
import type { DeliveryProgress, KeptDelivery, KeptEndpoint, Memory } from './memory.ts'

// How a claim ends: by what became of the attempt, by being given back, or with its lease.

/** Records what became of attempts: see `DeliveryStore.record`. */
export function record(memory: Memory, results: readonly AttemptResult[], limit: FailureLimit): RecordReport {
  const now = memory.clock()
  const recorded = new Map<KeptEndpoint, AttemptResult[]>()
  const deadLetters: DeadLetter[] = []
  const repeated: [KeptEndpoint, AttemptResult][] = []
  for (const result of results) {
    const delivery = find(memory, result)
    if (!delivery) continue
    const { endpoint } = delivery
    if (isInForce(delivery, result)) {
      recordResult(memory, delivery, result, now)
      recorded.set(endpoint, [...(recorded.get(endpoint) ?? []), result])
    } else {
      repeated.push([endpoint, result])
    }
    if (isDeadLetterOf(delivery, result)) deadLetters.push(deadLetterOf(delivery))
  }
  const judged = [...recorded].flatMap(([endpoint, ended]) => judge(endpoint, ended, limit, now) ?? [])
  const recalled = repeated.flatMap(([endpoint, result]) => recall(endpoint, result, limit) ?? [])
  return { endpoints: [...judged, ...recalled], deadLetters }
}

/** Gives claims back, due as before; the attempt is not counted. */
export function release(memory: Memory, claims: readonly ClaimRef[]): void {
  for (const claim of claims) {
    const delivery = find(memory, claim)
    if (!delivery || !isInForce(delivery, claim)) continue
    memory.move(delivery, { state: 'pending', attempts: delivery.attempts - 1, claim: null })
    memory.due.announce()
  }
}

/**
 * Sets free what a process had claimed that has ended: the attempt counts, as it may have reached the subscriber.
 *
 * @returns what of it was dead-lettered
 */
export function endLeases(memory: Memory, maxAttempts: number, now: number): readonly DeadLetter[] {
  const deadLetters: DeadLetter[] = []
  for (const delivery of [...memory.inFlight]) {
    const { claim, attempts, attemptsBefore } = delivery
    if (claim === null || claim.leaseUntil > now) continue
    log(delivery, claim.claimedAt, { ...INTERRUPTED, durationMs: claim.leaseUntil - claim.claimedAt })
    const wasLast = attempts - attemptsBefore >= maxAttempts
    const next: Partial<DeliveryProgress> = wasLast
      ? { state: 'dead_lettered', reason: 'interrupted', finishedAt: now }
      : { state: 'pending', dueAt: now }
    memory.move(delivery, { ...next, claim: null })
    if (wasLast) deadLetters.push(deadLetterOf(delivery))
  }
  return deadLetters
}

function find(memory: Memory, { organizationId, deliveryId }: ClaimRef): KeptDelivery | undefined {
  return memory.organization(organizationId).deliveries.get(deliveryId)
}

function isInForce({ claim }: KeptDelivery, { token }: ClaimRef): boolean {
  return claim?.token === token
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

/** Of a result that was recorded before, too: one that came too late has not brought the delivery to this end. */
function isDeadLetterOf({ state, reason }: KeptDelivery, result: AttemptResult): boolean {
  return state === 'dead_lettered' && result.outcome === 'dead_lettered' && reason === result.reason
}

function deadLetterOf({ id: deliveryId, endpoint, event, reason }: KeptDelivery): DeadLetter {
  const { organizationId, record } = endpoint
  const { id: eventId, type } = event
  return { organizationId, endpointId: record.id, deliveryId, eventId, type, reason: reason ?? '' }
}
