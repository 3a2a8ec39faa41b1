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

/** The properties of a new webhook endpoint. Defaults to all event types, no description and no headers. */
export interface NewEndpoint<Type extends string = EventType> extends Acting, Partial<EndpointChoices<Type>> {
  /** Id of the new endpoint, `we_<ulid>`. Makes retries safe, since an id is only used once. Defaults to a new id. */
  readonly id?: string
  readonly url: string
  /**
   * A signing secret the subscriber already has. Must be at least 24 bytes, either `whsec_` followed by base64, or any
   * visible ASCII. Defaults to a new secret.
   */
  readonly secret?: string
  /** The custom headers. See {@link EndpointUpdate}. */
  readonly headers?: HeaderValues
}

/**
 * Manages an organization's webhook endpoints. Calls that take an endpoint id throw `BusinessApiError` with code
 * `not_found` if the organization has no such endpoint.
 *
 * @typeParam Type the service's event types
 */
export interface EndpointSettings<Type extends string = EventType> extends BackfillCalls {
  /**
   * Registers and enables an endpoint. Every call registers another endpoint with its own secret, unless you pass the
   * same `id` again.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if there is no key to seal the secret, `limit_reached` if
   * the organization already has `maxEndpoints` endpoints, or `already_exists` if the id was used before. In that case,
   * the error's `record` is the endpoint's current state without its secret, or `null` if it was removed
   */
  register(organizationId: string, endpoint: NewEndpoint<Type>): Promise<EndpointWithSecret>

  /** Returns an endpoint. */
  get(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /** Lists an organization's endpoints except removed ones, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Updates the given fields, effective with the next claim. This includes deliveries that are already pending.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if the update has to open the current headers and the
   * configured keys can't, `limit_reached` if there would be too many headers or they'd be too long, or `invalid_state`
   * if you enable `standardWebhooks` and Standard Webhooks can't decode the signing secret
   */
  update(organizationId: string, endpointId: string, changes: EndpointUpdate<Type>): Promise<WebhookEndpoint>

  /**
   * Pauses an endpoint. Deliveries stay pending until you resume the endpoint.
   *
   * @throws `BusinessApiError` with code `invalid_state` if the endpoint is disabled
   */
  pause(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Resumes a paused endpoint and sends its pending deliveries.
   *
   * @throws `BusinessApiError` with code `invalid_state` if the endpoint is disabled
   */
  resume(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Disables an endpoint. Pending and new deliveries are skipped, but you can recover them later. Deliveries that have
   * already been claimed are still sent within seconds.
   */
  disable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /** Enables an endpoint and resets its failure count. Skipped deliveries stay skipped until you recover them. */
  enable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /** Permanently removes an endpoint and its secrets. The delivery log is kept until the next purge. */
  remove(organizationId: string, endpointId: string, options?: Acting): Promise<void>

  /**
   * Creates a new signing secret. The previous one keeps signing during the overlap period, which gives the subscriber
   * time to switch. Secrets from earlier rotations stop signing.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if there is no key to seal the secret, or if the
   * configured keys can't open the current secret. In that case, the delivery loop must have different keys and
   * couldn't open the new secret either. With an overlap of 0, the current secret doesn't have to be opened, so a
   * secret can be replaced even after losing the key
   */
  rotateSecret(
    organizationId: string,
    endpointId: string,
    options?: RotateSecretOptions,
  ): Promise<EndpointWithSecret>

  /**
   * Sends a signed example event immediately and returns the result. Makes a single attempt, which isn't logged and
   * doesn't affect the endpoint's failure count. Works even if the endpoint is paused or disabled. Subscribers can
   * recognize tests by their event id, `evt_test_…`.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if the configured keys can't open the signing secret, or
   * `limit_reached` if the organization has already sent ten tests in the last minute. `TypeError` if there is no
   * `sender`, `Error` if the sender couldn't send anything, for example because it's closed
   */
  sendTest(organizationId: string, endpointId: string, options?: SendTestOptions<Type>): Promise<TestResult>
}

// --- Calls ---

/** Dependencies of the endpoint calls. */
export interface EndpointTools extends EndpointUpdateTools, Omit<TestDeliveryTools, 'sealer'> {
  readonly maxEndpoints: number
}

interface Move {
  readonly verb: 'pause' | 'resume' | 'disable' | 'enable'
  readonly to: EndpointState
  readonly from: readonly EndpointState[]
  readonly action: AuditAction
}

/** Creates the webhook endpoint calls. */
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
      // Do this before the DNS lookup. If we can't seal the secret, the URL doesn't matter.
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
