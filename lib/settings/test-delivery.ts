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

/** Options of `sendTest`. */
export interface SendTestOptions<Type extends string = EventType> extends Acting {
  /**
   * Any event type, also a type that the endpoint is not sent. Default: the first of the endpoint's types,
   * that the service has, `client.created` if the endpoint is sent every type.
   */
  readonly type?: Type | undefined
}

/** The result of a test, as the delivery log shows an attempt. */
export interface TestResult extends Omit<DeliveryAttempt, 'number' | 'startedAt' | 'headers'> {
  /** True if the response was a 2xx. */
  readonly delivered: boolean
  /** `evt_test_<ulid>`: only ids of tests begin with `evt_test_`. */
  readonly eventId: string
  readonly type: string
}

// --- Inputs ---

const ACTION = 'Cannot send a test webhook'

// --- Call ---

/** The parts with which tests are sent. */
export interface TestDeliveryTools extends ServiceHeaders, EventOwner {
  /** Absent: the host has given no sender. */
  readonly sender: WebhookSender | undefined
  readonly sealer: SecretOpener
  readonly ids: Ids
  readonly clock: Clock
  readonly makeEntry: MakeEntry
}

/** Test deliveries of an organization in any minute: no signed-in person can use the service to flood a server. */
const TESTS: TestLimit = { max: 10, windowMs: 60_000 }

/** Creates the call `sendTest`, which sends an example of an event to an endpoint at once. */
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
    // By the store's clock, as every delivery is signed.
    const timestamp = Math.floor(target.storeTime / 1000)
    const request = makeRequest({ ...ref, ...target, eventId, type, body }, sealer, tools, timestamp)
    // Recorded before the test is sent: a test sent without a record would be worse than a record without a test.
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

/** A sender that throws has a fault of its own: an error for the host, not for a customer. */
function rethrow(error: unknown): never {
  throw error
}

/** Without the response's `detail`, which may name an address. */
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
