import { ATTEMPT_MAX_MS, attempt, createInterruption, makeRequest } from '../attempt.ts'
import type { ClaimRef } from '../deliveries.ts'
import type { SecretSealer } from '../secret-sealing.ts'
import { type AttemptTrace, channels, trace } from '../tracing.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from '../webhook-sender.ts'
import type { Claimed } from './lane.ts'
import type { Lanes } from './lanes.ts'
import type { LoopSettings } from './loop-options.ts'
import type { Recorder } from './recorder.ts'
import { judgeAnswer } from './verdict.ts'

/** What a loop has done. */
export interface DeliveryCounts {
  /** Attempts that were answered with 2xx. */
  readonly delivered: number
  /** Attempts that failed and are made again. */
  readonly retried: number
  /** Attempts that failed and were the last. */
  readonly deadLettered: number
}

/** Takes deliveries from their lanes to their subscribers, and what became of them to the recorder. */
export interface Courier {
  /** Of all attempts so far. */
  readonly counts: DeliveryCounts
  /** Begins as many attempts as may be made now. */
  dispatch(): void
  /** @param storeOffset what to add to the monotonic clock to have the store's, in milliseconds */
  setClock(storeOffset: number): void
  /** Attempts can be made again after they were interrupted. */
  begin(): void
  /** Ends all attempts in flight. */
  interrupt(): void
}

/** What a courier tells. */
export interface CourierEvents {
  /** More may be claimed now. */
  onRoom(): void
  onError(error: unknown): void
}

/** For an endpoint whose secret cannot be opened, or to which nothing can be sent from here. */
const BLOCKED_MS = 30_000

/** Makes attempts for a delivery loop. */
export function createCourier(
  sender: WebhookSender,
  lanes: Lanes,
  recorder: Pick<Recorder, 'record' | 'release'>,
  sealer: Pick<SecretSealer, 'unseal'>,
  { concurrency, leaseMs, retryDelaysMs, headerPrefix, logger }: LoopSettings,
  { onRoom, onError }: CourierEvents,
): Courier {
  const counts = { delivered: 0, retried: 0, deadLettered: 0 }
  let interruption = createInterruption()
  let storeOffset = 0

  function dispatch(): void {
    for (let delivery = lanes.next(); delivery; delivery = lanes.next()) void deliver(delivery)
  }

  async function deliver(delivery: Claimed): Promise<void> {
    const request = prepare(delivery)
    if (request === null) return giveBack(delivery)
    const startedAt = performance.now()
    const answer = await make(delivery, request)
    if (answer.wasMade === false) {
      block(delivery, new Error(`Cannot send webhooks as ${answer.detail ?? answer.error}`))
      return giveBack(delivery)
    }
    record(delivery, answer, startedAt)
    dispatch()
  }

  function giveBack(delivery: Claimed): void {
    recorder.release(refOf(delivery))
    lanes.end(delivery, 'same', 0)
    dispatch()
  }

  /** Nobody's attempt is used up by what is missing here. */
  function block(delivery: Claimed, error: unknown): void {
    if (lanes.block(delivery, BLOCKED_MS)) onError(error)
  }

  function make(delivery: Claimed, request: WebhookRequest): Promise<WebhookAnswer> {
    const { organizationId, id: deliveryId, endpointId, eventId, type, attempt: number } = delivery
    const describe = (): AttemptTrace => ({
      organizationId,
      deliveryId,
      endpointId,
      eventId,
      type,
      attempt: number,
    })
    return trace(channels.attempt, describe, async (traced) => {
      const answer = await attempt(sender, request, interruption, onError)
      if (traced) Object.assign(traced, { status: answer.status, error: answer.error })
      return answer
    })
  }

  /** Null for what cannot be attempted now. */
  function prepare(delivery: Claimed): WebhookRequest | null {
    if (delivery.leaseEndsAt - performance.now() < Math.min(ATTEMPT_MAX_MS, leaseMs / 2)) return null
    try {
      const timestamp = Math.floor((performance.now() + storeOffset) / 1000)
      return makeRequest(delivery, sealer, headerPrefix, timestamp)
    } catch (error) {
      block(delivery, error)
      return null
    }
  }

  function record(delivery: Claimed, answer: WebhookAnswer, startedAt: number): void {
    const { load, ...verdict } = judgeAnswer(answer, delivery.attempt, retryDelaysMs)
    const { dnsMs = null, connectMs = null, tlsMs = null, firstByteMs = null } = answer.timings ?? {}
    const { status, error, durationMs, bodyExcerpt } = answer
    const endedAt = performance.now()
    recorder.record(
      {
        ...refOf(delivery),
        ...verdict,
        status,
        error,
        durationMs,
        dnsMs,
        connectMs,
        tlsMs,
        firstByteMs,
        bodyExcerpt,
      },
      { startedAt, endedAt },
    )
    count(verdict.outcome)
    if (error !== null) logger.debug({ ...refOf(delivery), error, detail: answer.detail }, 'Attempt failed')
    const wasFull = lanes.inFlight + lanes.waiting >= concurrency
    if (lanes.end(delivery, load, durationMs) || wasFull) onRoom()
  }

  function count(outcome: 'delivered' | 'retry' | 'dead_lettered'): void {
    if (outcome === 'delivered') counts.delivered++
    else if (outcome === 'retry') counts.retried++
    else counts.deadLettered++
  }

  return {
    counts,
    dispatch,
    setClock(offset) {
      storeOffset = offset
    },
    begin() {
      interruption = createInterruption()
    },
    interrupt: () => interruption.interrupt(),
  }
}

/** The name of a claim. */
export function refOf({
  organizationId,
  id,
  token,
}: Pick<Claimed, 'organizationId' | 'id' | 'token'>): ClaimRef {
  return { organizationId, deliveryId: id, token }
}
