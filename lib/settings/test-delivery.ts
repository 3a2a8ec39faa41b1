import * as v from 'valibot'
import type { TestLimit } from '../access/audit.ts'
import { LIMIT_REACHED, refused } from '../base/errors.ts'
import { found, IdSchema, oneOf } from '../base/host-input.ts'
import type { Clock, Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { exampleOfType } from '../resources/example-data.ts'
import { type EventOwner, eventTypes } from '../resources/own-events.ts'
import { attempt, createInterruption, makeRequest, type ServiceHeaders } from '../webhooks/attempt.ts'
import type { DeliveryAttempt } from '../webhooks/claims.ts'
import type { SecretOpener } from '../webhooks/secret-sealing.ts'
import { isSuccess } from '../webhooks/webhook-answer.ts'
import type { WebhookAnswer, WebhookSender } from '../webhooks/webhook-sender.ts'
import { toEventRecord } from '../writes/event-envelope.ts'
import { type Acting, audited, defineAuditedCall, type MakeEntry } from './calls.ts'

// --- Types ---

/** Options for `sendTest`. */
export interface SendTestOptions<Type extends string = EventType> extends Acting {
  /**
   * The event type to send. The endpoint doesn't have to be subscribed to it. Defaults to the endpoint's first type
   * that the service has, or `client.created` if the endpoint is subscribed to all types.
   */
  readonly type?: Type | undefined
}

/** The result of a test. Has the same fields as an attempt in the delivery log. */
export interface TestResult extends Omit<DeliveryAttempt, 'number' | 'startedAt' | 'headers'> {
  /** `true` if the response was a 2xx. */
  readonly delivered: boolean
  /** `evt_test_<ulid>`. Only tests have ids that start with `evt_test_`. */
  readonly eventId: string
  readonly type: string
}

// --- Inputs ---

const ACTION = 'Cannot send a test webhook'

// --- Call ---

/** Dependencies of the `sendTest` call. */
export interface TestDeliveryTools extends ServiceHeaders, EventOwner {
  /** Missing if the host didn't pass a sender. */
  readonly sender: WebhookSender | undefined
  readonly sealer: SecretOpener
  readonly ids: Ids
  readonly clock: Clock
  readonly makeEntry: MakeEntry
}

/** Maximum number of tests per organization and minute. Keeps users from using us to flood a server. */
const TESTS: TestLimit = { max: 10, windowMs: 60_000 }

/** Creates the `sendTest` call. */
export function createTestDelivery(
  store: Pick<BusinessApiStore, 'endpoints' | 'audit'>,
  tools: TestDeliveryTools,
): (organizationId: string, endpointId: string, options?: SendTestOptions<string>) => Promise<TestResult> {
  const { sender, sealer, ids, clock, makeEntry } = tools
  const types = eventTypes(tools)
  const readSend = defineAuditedCall(ACTION, { endpointId: IdSchema, type: v.optional(oneOf(types)) })

  return async (organizationId, endpointId, options) => {
    if (!sender) {
      throw new TypeError(
        `${ACTION} because option 'sender' is not set: give createDeveloperSettings a sender of createWebhookSender()`,
      )
    }
    const call = readSend(organizationId, options, { endpointId })
    const ref = { organizationId: call.organizationId, endpointId: call.input.endpointId }
    const target = found(await store.endpoints.getTarget(ref.organizationId, ref.endpointId), ACTION)
    const type = call.input.type ?? target.types?.find((one) => types.includes(one)) ?? 'client.created'
    const { id: eventId, body } = toEventRecord(ids('evt_test'), type, exampleOfType(tools, type), clock())
    // Use the store's clock, like all deliveries do.
    const timestamp = Math.floor(target.storeTime / 1000)
    const request = makeRequest({ ...ref, ...target, eventId, type, body }, sealer, tools, timestamp)
    // Record the test before sending it. An unrecorded test would be worse than a recorded test that was never sent.
    const { entry } = audited(makeEntry, call, 'endpoint.test_sent', ref.endpointId, { type, eventId })
    if (!(await store.audit.recordTest(ref.organizationId, entry, TESTS))) {
      throw refused(
        ACTION,
        LIMIT_REACHED,
        `the organization has sent ${TESTS.max} test webhooks within a minute: try again later`,
      )
    }
    const answer = await attempt(sender, request, createInterruption(), rethrow)
    if (answer.wasMade === false) throw new Error(`${ACTION} because ${answer.detail ?? answer.error}`)
    return { delivered: isSuccess(answer), eventId, type, ...toResult(answer) }
  }
}

/** A sender that throws has a bug, so the error is for the host and not for a customer. */
function rethrow(error: unknown): never {
  throw error
}

/** Omits `detail`, because it may contain an address. */
function toResult({
  status,
  error,
  durationMs,
  timings,
  bodyExcerpt,
  location = null,
}: WebhookAnswer): Omit<TestResult, 'delivered' | 'eventId' | 'type'> {
  const { dnsMs = null, connectMs = null, tlsMs = null, firstByteMs = null } = timings ?? {}
  return { status, error, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt, location }
}
