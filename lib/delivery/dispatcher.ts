import { type AttemptTrace, channels, trace } from '../base/tracing.ts'
import { ATTEMPT_MAX_MS, attempt, createInterruption, makeRequest } from '../webhooks/attempt.ts'
import { loggedHeaders } from '../webhooks/attempt-headers.ts'
import type { ClaimRef } from '../webhooks/claims.ts'
import type { SecretOpener } from '../webhooks/secret-sealing.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from '../webhooks/webhook-sender.ts'
import type { ResolvedLoopOptions } from './loop-options.ts'
import type { Claimed } from './queue.ts'
import type { EndpointQueues } from './queues.ts'
import type { ResultWriter, UntimedResult } from './result-writer.ts'
import { judgeAnswer } from './verdict.ts'

/** Takes deliveries from the queues, attempts them, and hands the results to the result writer. */
export interface Dispatcher {
  /** Starts as many attempts as currently possible. */
  dispatch(): void
  /** @param storeOffset the store's clock minus the monotonic clock, in milliseconds */
  setClock(storeOffset: number): void
  /** Ends the hold on endpoints once their rejections are written. From then on, the store rate-limits them. */
  noteWritten(results: readonly UntimedResult[]): void
  /** Allows new attempts again after `interrupt`. */
  begin(): void
  interrupt(): void
}

/** Dispatcher callbacks. */
export interface DispatchListener {
  /** Called when there is room for more deliveries. */
  onCapacity(): void
  onError(error: unknown): void
}

/** The parts a dispatcher needs. */
export interface DispatcherParts {
  readonly sender: WebhookSender
  readonly queues: EndpointQueues
  readonly resultWriter: Pick<ResultWriter, 'write' | 'release'>
  readonly sealer: SecretOpener
}

/** How long to block an endpoint if its secret can't be opened or our sender fails, in milliseconds. */
const BLOCKED_MS = 30_000

/** Creates a loop's dispatcher. */
export function createDispatcher(
  { sender, queues, resultWriter, sealer }: DispatcherParts,
  options: ResolvedLoopOptions,
  listener: DispatchListener,
): Dispatcher {
  const { concurrency, leaseMs, retryDelaysMs, logger } = options
  let interruption = createInterruption()
  let storeOffset = 0
  const rejections = new WeakMap<UntimedResult, Claimed>()

  function dispatch(): void {
    for (let delivery = queues.next(); delivery; delivery = queues.next()) void deliver(delivery)
  }

  async function deliver(delivery: Claimed): Promise<void> {
    const request = prepare(delivery)
    if (request === null) return giveBack(delivery)
    const startedAt = performance.now()
    const answer = await makeAttempt(delivery, request)
    if (answer.wasMade === false) {
      block(delivery, new Error(`Cannot send webhooks because ${answer.detail ?? answer.error}`))
      return giveBack(delivery)
    }
    write(delivery, request, answer, startedAt)
    dispatch()
  }

  function giveBack(delivery: Claimed): void {
    resultWriter.release(refOf(delivery))
    queues.end(delivery, 'same', 0)
    dispatch()
  }

  /** Blocks an endpoint because of a problem on our side, without counting an attempt. */
  function block(delivery: Claimed, error: unknown): void {
    if (queues.block(delivery, BLOCKED_MS)) listener.onError(error)
  }

  function makeAttempt(delivery: Claimed, request: WebhookRequest): Promise<WebhookAnswer> {
    const work = (): Promise<WebhookAnswer> => attempt(sender, request, interruption, listener.onError)
    return channels.attempt.hasSubscribers ? traceAttempt(delivery, work) : work()
  }

  /** Returns `null` if the delivery can't be attempted now. */
  function prepare(delivery: Claimed): WebhookRequest | null {
    if (delivery.leaseEndsAt - performance.now() < Math.min(ATTEMPT_MAX_MS, leaseMs / 2)) return null
    try {
      const timestamp = Math.floor((performance.now() + storeOffset) / 1000)
      return makeRequest(delivery, sealer, options, timestamp)
    } catch (error) {
      block(delivery, error)
      return null
    }
  }

  function write(delivery: Claimed, request: WebhookRequest, answer: WebhookAnswer, startedAt: number): void {
    const { load, outcome, reason, isGone, delayMs, backOffMs } = judgeAnswer(
      answer,
      delivery.attempt,
      retryDelaysMs,
    )
    const { dnsMs = null, connectMs = null, tlsMs = null, firstByteMs = null } = answer.timings ?? {}
    const { status, error, durationMs, bodyExcerpt, location = null } = answer
    const { organizationId, id: deliveryId, token } = delivery
    const endedAt = performance.now()
    // Listing every property is ugly, but spreading two objects into one takes as long as signing a webhook.
    const result: UntimedResult = {
      organizationId,
      deliveryId,
      token,
      outcome,
      reason,
      isGone,
      delayMs,
      backOffMs,
      status,
      error,
      durationMs,
      dnsMs,
      connectMs,
      tlsMs,
      firstByteMs,
      bodyExcerpt,
      location,
      headers: loggedHeaders(delivery, request, answer, options.headerPrefix),
    }
    resultWriter.write(result, { startedAt, endedAt })
    if (backOffMs !== null) {
      rejections.set(result, delivery)
      for (const waiting of queues.hold(delivery)) resultWriter.release(refOf(waiting))
    }
    if (error !== null) logger.debug({ ...refOf(delivery), error, detail: answer.detail }, 'Attempt failed')
    const wasFull = queues.inFlight + queues.waiting >= concurrency
    if (queues.end(delivery, load, durationMs) || wasFull) listener.onCapacity()
  }

  return {
    dispatch,
    setClock(offset) {
      storeOffset = offset
    },
    noteWritten(results) {
      for (const result of results) {
        const delivery = result.backOffMs === null ? undefined : rejections.get(result)
        if (delivery) queues.endHold(delivery)
      }
    },
    begin() {
      interruption = createInterruption()
    },
    interrupt: () => interruption.interrupt(),
  }
}

function traceAttempt(
  { organizationId, id: deliveryId, endpointId, eventId, type, attempt: number, traceparent }: Claimed,
  work: () => Promise<WebhookAnswer>,
): Promise<WebhookAnswer> {
  const describe = (): AttemptTrace => ({
    organizationId,
    deliveryId,
    endpointId,
    eventId,
    type,
    attempt: number,
    traceparent: traceparent ?? null,
  })
  return trace(channels.attempt, describe, async (traced) => {
    const answer = await work()
    if (traced) Object.assign(traced, { status: answer.status, error: answer.error })
    return answer
  })
}

/** Returns a reference to a delivery's claim. */
export function refOf({
  organizationId,
  id,
  token,
}: Pick<Claimed, 'organizationId' | 'id' | 'token'>): ClaimRef {
  return { organizationId, deliveryId: id, token }
}
