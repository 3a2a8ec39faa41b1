import type { AuditAction } from '../access/audit.ts'
import { BusinessApiError, INVALID_STATE } from '../base/errors.ts'
import { found } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EndpointState, WebhookEndpoint } from '../webhooks/endpoints.ts'
import { generateSigningSecret } from '../webhooks/secret-sealing.ts'
import { toTimestamp } from '../writes/write-context.ts'
import type { Acting } from './audit.ts'
import { audited, insertedItem } from './calls.ts'
import { checkHeaderBounds, type HeaderValues } from './endpoint-headers.ts'
import { checkUrl, defineEndpointCalls, defineRef, readList } from './endpoint-inputs.ts'
import { createEndpointUpdate, type EndpointUpdate, type EndpointUpdateTools } from './endpoint-update.ts'
import { createSecretRotation, type EndpointWithSecret, type RotateSecretOptions } from './secret-rotation.ts'
import {
  createTestDelivery,
  type SendTestOptions,
  type TestDeliveryTools,
  type TestResult,
} from './test-delivery.ts'

// --- Types ---

/** What an administrator decides about a new webhook endpoint. Default: every type, no description, no headers. */
export interface NewEndpoint extends Omit<EndpointUpdate, 'headers'> {
  /**
   * The id of the endpoint that the call makes, `we_<ulid>`: the same call sent again makes no other endpoint. Default a new
   * id.
   */
  readonly id?: string | undefined
  readonly url: string
  /** Headers of the organization's own, as of {@link EndpointUpdate}. */
  readonly headers?: HeaderValues | undefined
}

/**
 * The webhook endpoints of organizations. Every call about one of them throws `BusinessApiError` with code `not_found`
 * when the organization has no endpoint of that id.
 */
export interface EndpointSettings {
  /**
   * Registers an endpoint, enabled. Two calls make two endpoints, each with a secret of its own, unless they have the same
   * `id`.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with;
   *   `already_exists` when the id was used before: the error's `record` is the endpoint of that id as it is now, null when
   *   it was removed, and no call can show its secret again; `limit_reached` when the organization has as many endpoints as
   *   `maxEndpoints` allows
   */
  register(organizationId: string, endpoint: NewEndpoint): Promise<EndpointWithSecret>

  /** All endpoints of the organization that have not been removed, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Changes the given fields, from the next claim on, also for deliveries that wait.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host's keys do not open the headers that a patch
   *   changes; `limit_reached` when the endpoint would have too many or too long headers
   */
  update(organizationId: string, endpointId: string, changes: EndpointUpdate): Promise<WebhookEndpoint>

  /**
   * Lets deliveries wait until it is resumed.
   *
   * @throws `BusinessApiError` with code `invalid_state` when it is disabled
   */
  pause(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Ends a pause: what has been waiting is sent.
   *
   * @throws `BusinessApiError` with code `invalid_state` when it is disabled
   */
  resume(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /**
   * Claims nothing for it from now on: deliveries, those that wait too, are skipped and can be recovered later. What a
   * process has claimed before is still sent, some seconds long at most.
   */
  disable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /** Sends again, whoever had disabled it, and forgets its failures. What was skipped stays so until it is recovered. */
  enable(organizationId: string, endpointId: string, options?: Acting): Promise<WebhookEndpoint>

  /** Removes the endpoint and its secrets for good. Its delivery log stays until it is purged. */
  remove(organizationId: string, endpointId: string, options?: Acting): Promise<void>

  /**
   * Makes a new secret the current one. The one before signs too for the overlap, so that the subscriber can change
   * over in its own time; one from an earlier rotation does not sign any more.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with, and
   *   when its keys do not open the present secret: then the delivery loop's are others, and it could not send with what
   *   is sealed here. An overlap of 0 does without the present secret, for one whose key is lost
   */
  rotateSecret(
    organizationId: string,
    endpointId: string,
    options?: RotateSecretOptions,
  ): Promise<EndpointWithSecret>

  /**
   * Makes one attempt now, signed as every delivery, with an example of an event, and tells what became of it. It is in
   * no log, counts neither for nor against the endpoint, and is made also while that is paused or disabled. Subscribers
   * tell it by its id: `evt_test_…`.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host's keys do not open the signing secret;
   *   `TypeError` when the host has given no `sender`; `Error` when that could not send at all, as it is closed
   */
  sendTest(organizationId: string, endpointId: string, options?: SendTestOptions): Promise<TestResult>
}

// --- Calls ---

/** What endpoints are managed with. */
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
  store: Pick<BusinessApiStore, 'endpoints' | 'audit'>,
  tools: EndpointTools,
): EndpointSettings {
  const { endpoints } = store
  const { sealer, judge, maxEndpoints, headerPrefix, ids, clock, makeEntry } = tools
  const { readRegister, readUpdate } = defineEndpointCalls(headerPrefix)
  const readRemove = defineRef('remove')

  function move({ verb, to, from, action }: Move): EndpointSettings['pause'] {
    const readMove = defineRef(verb)
    return async (organizationId, endpointId, options) => {
      const call = readMove(organizationId, { ...options, endpointId })
      const { endpointId: id } = call.input
      const request = audited(makeEntry, call, action, id)
      const moved = await endpoints.setState({ ...request, endpointId: id, state: to, from })
      const endpoint = found(moved, call.action)
      if (endpoint.state === to) return endpoint
      throw new BusinessApiError(INVALID_STATE, `${call.action} as it is ${endpoint.state}`)
    }
  }

  const refusals = {
    taken: TAKEN,
    full:
      `the organization has ${maxEndpoints} ${maxEndpoints === 1 ? 'endpoint' : 'endpoints'}, its limit: ` +
      "remove one, or raise option 'maxEndpoints'",
  }

  return {
    async register(organizationId, newEndpoint) {
      const call = readRegister(organizationId, newEndpoint)
      const { id = ids('we'), headers, ...chosen } = call.input
      const ref = { organizationId: call.organizationId, endpointId: id }
      checkHeaderBounds(headers, call.action)
      const secret = generateSigningSecret()
      // Before the name look-up: without a key to seal with, nothing that the URL says matters.
      const sealed = { sealedSecret: sealer.seal(secret, ref), ...sealer.sealHeaders(headers, ref) }
      await checkUrl(judge, chosen.url, call.action)
      const endpoint = { id, ...chosen, ...sealed, createdAt: toTimestamp(clock()) }
      const request = audited(makeEntry, call, 'endpoint.registered', id, { types: endpoint.types })
      const insertion = await endpoints.insert({ ...request, endpoint, limit: maxEndpoints })
      return { secret, ...insertedItem(call, insertion, refusals) }
    },

    async list(organizationId) {
      return endpoints.list(readList(organizationId).organizationId)
    },

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
      const call = readRemove(organizationId, { ...options, endpointId })
      const { endpointId: id } = call.input
      const request = audited(makeEntry, call, 'endpoint.removed', id)
      const wasThere = await endpoints.remove({ ...request, endpointId: id })
      found(wasThere || null, call.action)
    },

    rotateSecret: createSecretRotation(store, tools),
    sendTest: createTestDelivery(store, tools),
  }
}

const TAKEN = 'its id was used before: a signing secret is shown once only, and can be rotated'
