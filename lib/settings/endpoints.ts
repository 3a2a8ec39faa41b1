import type { AuditAction } from '../access/audit.ts'
import { INVALID_INPUT, INVALID_STATE, refused } from '../base/errors.ts'
import { found } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { eventTypes } from '../resources/own-events.ts'
import { ENDPOINT_DEFAULTS, type EndpointChoices } from '../webhooks/endpoint-choices.ts'
import type { EndpointState, WebhookEndpoint } from '../webhooks/endpoints.ts'
import { generateSigningSecret } from '../webhooks/secret-sealing.ts'
import { isStandardSecret } from '../webhooks/standard-webhooks.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { type BackfillCalls, createBackfillCalls } from './backfill.ts'
import { type Acting, audited, insertedItem } from './calls.ts'
import { checkHeaderBounds, type HeaderValues } from './endpoint-headers.ts'
import { checkUrl, defineEndpointCalls, defineRef, readGet, readList } from './endpoint-inputs.ts'
import { createEndpointUpdate, type EndpointUpdate, type EndpointUpdateTools } from './endpoint-update.ts'
import { createSecretRotation, type EndpointWithSecret, type RotateSecretOptions } from './secret-rotation.ts'
import {
  createTestDelivery,
  type SendTestOptions,
  type TestDeliveryTools,
  type TestResult,
} from './test-delivery.ts'

// --- Types ---

/** An administrator's decisions about a new webhook endpoint. Default: every type, no description, no headers. */
export interface NewEndpoint<Type extends string = EventType> extends Acting, Partial<EndpointChoices<Type>> {
  /**
   * The id of the endpoint that the call makes, `we_<ulid>`: the same call sent again makes no second endpoint. Default
   * a new id.
   */
  readonly id?: string
  readonly url: string
  /** The signing secret that the subscriber has already: at least 24 bytes, in base64 after `whsec_` or as they are. Default a new one. */
  readonly secret?: string
  /** The organization's own headers, as in {@link EndpointUpdate}. */
  readonly headers?: HeaderValues
}

/**
 * The webhook endpoints of organizations. Every call about an endpoint throws `BusinessApiError` with code `not_found`
 * when the organization has no endpoint with this id.
 *
 * @typeParam Type the service's event types
 */
export interface EndpointSettings<Type extends string = EventType> extends BackfillCalls {
  /**
   * Registers an endpoint, enabled. Two calls make two endpoints, each with its own secret, unless the calls have the
   * same `id`.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with;
   *   `already_exists` when the id was used before: the error's `record` is the present state of that endpoint, without
   *   the secret, and null when the endpoint was removed; `limit_reached` when the organization has as many endpoints
   *   as `maxEndpoints` allows
   */
  register(organizationId: string, endpoint: NewEndpoint<Type>): Promise<EndpointWithSecret>

  /** Gives an endpoint. */
  get(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /** All endpoints of the organization that have not been removed, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Changes the given fields, from the next claim on, also for pending deliveries.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host's keys do not open the headers that a patch
   *   changes; `limit_reached` when the endpoint would have too many or too long headers; `invalid_state` when
   *   `standardWebhooks` is set for a signing secret that Standard Webhooks cannot decode
   */
  update(organizationId: string, endpointId: string, changes: EndpointUpdate<Type>): Promise<WebhookEndpoint>

  /**
   * Pauses the endpoint: deliveries stay pending until it is resumed.
   *
   * @throws `BusinessApiError` with code `invalid_state` when the endpoint is disabled
   */
  pause(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Ends a pause: pending deliveries are sent.
   *
   * @throws `BusinessApiError` with code `invalid_state` when the endpoint is disabled
   */
  resume(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Disables the endpoint: from now on nothing is claimed. Waiting and new deliveries are skipped and can be recovered
   * later. Deliveries that a process has already claimed are still sent, within seconds.
   */
  disable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Enables the endpoint after any reason for disabling, and forgets the failures. Skipped deliveries stay skipped
   * until recovered.
   */
  enable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /** Removes the endpoint and its secrets for good. The delivery log stays until the purge. */
  remove(organizationId: string, endpointId: string, options?: Acting): Promise<void>

  /**
   * Makes a new secret the current secret. The previous secret signs too for the overlap, so the subscriber can
   * change over within that time; a secret from an earlier rotation no longer signs.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with,
   *   and when the host's keys do not open the present secret: then the delivery loop has other keys and could not open
   *   a new secret. With an overlap of 0 the present secret is not opened, for a secret with a lost key
   */
  rotateSecret(
    organizationId: string,
    endpointId: string,
    options?: RotateSecretOptions,
  ): Promise<EndpointWithSecret>

  /**
   * Makes one attempt now, signed as every delivery, with an example of an event, and gives the result. A test is in no
   * log, counts neither for nor against the endpoint, and is also sent to a paused or disabled endpoint. Subscribers
   * know a test by the event id: `evt_test_…`.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host's keys do not open the signing secret,
   *   `limit_reached` when the organization has sent ten at once or ten within a minute;
   *   `TypeError` when the host has given no `sender`; `Error` when the sender could not send at all, for instance
   *   after its close
   */
  sendTest(organizationId: string, endpointId: string, options?: SendTestOptions<Type>): Promise<TestResult>
}

// --- Calls ---

/** The parts with which endpoints are managed. */
export interface EndpointTools extends EndpointUpdateTools, Omit<TestDeliveryTools, 'sealer'> {
  readonly maxEndpoints: number
}

/** A call that moves an endpoint to a state. */
interface Move {
  readonly verb: 'pause' | 'resume' | 'disable' | 'enable'
  readonly to: EndpointState
  readonly from: readonly EndpointState[]
  readonly action: AuditAction
}

/** Creates the calls about webhook endpoints. */
export function createEndpointSettings(
  store: Pick<BusinessApiStore, 'endpoints' | 'audit' | 'backfills'>,
  tools: EndpointTools,
): EndpointSettings<string> {
  const { endpoints } = store
  const { sealer, judge, maxEndpoints, headerPrefix, ids, clock, makeEntry } = tools
  const { readRegister, readUpdate } = defineEndpointCalls(eventTypes(tools), headerPrefix)
  const readRemove = defineRef('remove')

  function move({ verb, to, from, action }: Move): EndpointSettings['pause'] {
    const readMove = defineRef(verb)
    return async (organizationId, endpointId, options) => {
      const call = readMove(organizationId, options, { endpointId })
      const { endpointId: id } = call.input
      const request = audited(makeEntry, call, action, id)
      const moved = await endpoints.setState({ ...request, endpointId: id, state: to, from })
      const endpoint = found(moved, call.action)
      if (endpoint.state === to) return endpoint
      throw refused(
        call.action,
        INVALID_STATE,
        `the endpoint is ${endpoint.state}: enable the endpoint first`,
      )
    }
  }

  const refusals = {
    taken: TAKEN,
    full:
      `the organization has reached its limit of ${maxEndpoints} ${maxEndpoints === 1 ? 'endpoint' : 'endpoints'}: ` +
      "remove one, or raise option 'maxEndpoints'",
  }

  return {
    async register(organizationId, newEndpoint) {
      const call = readRegister(organizationId, newEndpoint)
      const { id = ids('we'), headers, secret: given, ...chosen } = { ...ENDPOINT_DEFAULTS, ...call.input }
      const ref = { organizationId: call.organizationId, endpointId: id }
      checkHeaderBounds(headers, call.action)
      const secret = given ?? generateSigningSecret()
      if (chosen.standardWebhooks && !isStandardSecret(secret)) {
        const text =
          'Standard Webhooks cannot decode the secret: it must be whsec_ and 24 to 64 bytes in base64'
        throw refused(call.action, INVALID_INPUT, text, ['secret', 'standardWebhooks'])
      }
      // Before the name lookup: without a key to seal with, nothing that the URL says matters.
      const sealed = { sealedSecret: sealer.seal(secret, ref), ...sealer.sealHeaders(headers, ref) }
      await checkUrl(judge, chosen.url, call.action)
      const endpoint = { id, ...chosen, ...sealed, createdAt: toTimestamp(clock()) }
      const details = { types: endpoint.types, ...(given !== undefined && { hasGivenSecret: true }) }
      const request = audited(makeEntry, call, 'endpoint.registered', id, details)
      const insertion = await endpoints.insert({ ...request, endpoint, limit: maxEndpoints })
      return { secret, ...insertedItem(call, insertion, refusals) }
    },

    async get(organizationId, endpointId) {
      const call = readGet(organizationId, { endpointId })
      return found(await endpoints.get(call.organizationId, call.input.endpointId), call.action)
    },

    list: async (organizationId) => endpoints.list(readList(organizationId).organizationId),

    update: createEndpointUpdate(store, tools, readUpdate),

    pause: move({ verb: 'pause', to: 'paused', from: ['enabled'], action: 'endpoint.paused' }),
    resume: move({ verb: 'resume', to: 'enabled', from: ['paused'], action: 'endpoint.resumed' }),
    disable: move({
      verb: 'disable',
      to: 'disabled',
      from: ['enabled', 'paused'],
      action: 'endpoint.disabled',
    }),
    enable: move({
      verb: 'enable',
      to: 'enabled',
      from: ['paused', 'disabled'],
      action: 'endpoint.enabled',
    }),

    async remove(organizationId, endpointId, options) {
      const call = readRemove(organizationId, options, { endpointId })
      const { endpointId: id } = call.input
      const request = audited(makeEntry, call, 'endpoint.removed', id)
      const wasThere = await endpoints.remove({ ...request, endpointId: id })
      found(wasThere || null, call.action)
    },

    rotateSecret: createSecretRotation(store, tools),
    sendTest: createTestDelivery(store, tools),
    ...createBackfillCalls(store, makeEntry),
  }
}

const TAKEN = 'its id was used before: a signing secret is shown once only, and can be rotated'
