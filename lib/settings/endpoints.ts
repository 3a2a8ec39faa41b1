import * as v from 'valibot'
import type { AuditAction } from '../audit.ts'
import type { DestinationVerdict } from '../destination.ts'
import type { EndpointState, WebhookEndpoint } from '../endpoints.ts'
import { BusinessApiError, INVALID_INPUT, INVALID_STATE } from '../errors.ts'
import type { EventType } from '../events.ts'
import { found, OrganizationIdSchema, read, withoutUndefined } from '../input.ts'
import { toTimestamp } from '../making.ts'
import { generateSigningSecret, type SecretSealer } from '../secret-sealing.ts'
import type { BusinessStore } from '../store.ts'
import type { Acting } from './audit.ts'
import { createEndpointSchemas, EndpointRefSchema, RotateSecretSchema } from './endpoint-inputs.ts'
import { OVERLAP_MS } from './overlap.ts'
import {
  createTestDelivery,
  type SendTestOptions,
  type TestDeliveryTools,
  type TestResult,
} from './test-delivery.ts'

// --- Types ---

/** What of a webhook endpoint is to be changed; what is absent stays. */
export interface EndpointUpdate extends Acting {
  /** Where to: https, public, on port 443 or from 1024 on. Judged now and again at every attempt. */
  readonly url?: string | undefined
  /** The types it wants, at least one, each once; null: every type, also those to come. */
  readonly types?: readonly EventType[] | null | undefined
  /** At most 200 characters, for people. */
  readonly description?: string | undefined
  /** Headers of the organization's own, sent with every attempt: at most 20, none that the service sets itself. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** What an administrator decides about a new webhook endpoint. Default: every type, no description, no headers. */
export interface NewEndpoint extends EndpointUpdate {
  readonly url: string
}

/** An endpoint together with a signing secret that was made for it just now. */
export interface EndpointWithSecret extends WebhookEndpoint {
  /** The secret itself, shown this once: what is stored is sealed, and no call gives it again. */
  readonly secret: string
}

/**
 * The webhook endpoints of organizations. Every call about one of them throws `BusinessApiError` with code `not_found`
 * when the organization has no endpoint of that id.
 */
export interface EndpointSettings {
  /**
   * Registers an endpoint, enabled. Two calls make two endpoints, each with a secret of its own.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with
   */
  register(organizationId: string, endpoint: NewEndpoint): Promise<EndpointWithSecret>

  /** All endpoints of the organization that have not been removed, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /** Changes what is given. It counts for all that is claimed from now on, also for deliveries that have been waiting. */
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

/** Options of `rotateSecret`. */
export interface RotateSecretOptions extends Acting {
  /** Milliseconds for which the secret before signs too; 0: not at all. Default 24 hours, at most 30 days. */
  readonly overlapMs?: number | undefined
}

// --- Inputs ---

const ListSchema = v.object({ organizationId: OrganizationIdSchema })

// --- Calls ---

/** What endpoints are managed with. */
export interface EndpointTools extends TestDeliveryTools {
  readonly sealer: SecretSealer
  /** Whether events may be sent to a URL. */
  readonly judge: (url: string) => Promise<DestinationVerdict>
}

/** A call that moves an endpoint to a state. */
interface Move {
  readonly verb: 'pause' | 'resume' | 'disable' | 'enable'
  readonly to: EndpointState
  readonly from: readonly EndpointState[]
  readonly audited: AuditAction
}

/** Webhook endpoints as administrators manage them. */
export function createEndpointSettings(
  store: Pick<BusinessStore, 'endpoints' | 'audit'>,
  tools: EndpointTools,
): EndpointSettings {
  const { sealer, judge, headerPrefix, ids, clock, makeEntry } = tools
  const { RegisterSchema, UpdateSchema } = createEndpointSchemas(headerPrefix)

  /** Whoever cannot open what the loop opens has other keys, and would stop the deliveries. */
  async function checkPresentSecret(
    organizationId: string,
    endpointId: string,
    action: string,
  ): Promise<void> {
    const target = found(await store.endpoints.getTarget(organizationId, endpointId), action)
    for (const sealed of target.sealedSecrets.slice(0, 1))
      sealer.unseal(sealed, { organizationId, endpointId })
  }

  async function checkUrl(url: string, action: string): Promise<void> {
    const verdict = await judge(url)
    // The verdict's detail is for operators: it would tell a customer what our network looks like from inside.
    if (verdict.allowed) return
    throw new BusinessApiError(INVALID_INPUT, `${action} as url was refused: ${verdict.reason}`)
  }

  function move({ verb, to, from, audited }: Move): EndpointSettings['pause'] {
    const action = `Cannot ${verb} a webhook endpoint`
    return async (organizationId, endpointId, { actor } = {}) => {
      const input = read(EndpointRefSchema, { organizationId, endpointId, actor }, action)
      const { organizationId: owner, endpointId: id } = input
      const entry = makeEntry(audited, id, input.actor)
      const endpoint = found(await store.endpoints.setState(owner, id, to, from, entry), action)
      if (endpoint.state === to) return endpoint
      throw new BusinessApiError(INVALID_STATE, `${action} as it is ${endpoint.state}`)
    }
  }

  return {
    async register(organizationId, { url, types, description, headers, actor }) {
      const action = 'Cannot register a webhook endpoint'
      const given = { organizationId, url, types, description, headers, actor }
      const { organizationId: owner, actor: who, ...input } = read(RegisterSchema, given, action)
      const id = ids('we')
      const secret = generateSigningSecret()
      // Before the name look-up: without a key to seal with, nothing that the URL says matters.
      const sealedSecret = sealer.seal(secret, { organizationId: owner, endpointId: id })
      await checkUrl(input.url, action)
      const shown = { id, ...input, createdAt: toTimestamp(clock()) }
      const entry = makeEntry('endpoint.registered', id, who, { types: input.types })
      await store.endpoints.insert(owner, { ...shown, sealedSecret }, entry)
      return { secret, ...shown, ...UNTOUCHED }
    },

    async list(organizationId) {
      const input = read(ListSchema, { organizationId }, 'Cannot list webhook endpoints')
      return store.endpoints.list(input.organizationId)
    },

    async update(organizationId, endpointId, changes) {
      const action = 'Cannot update a webhook endpoint'
      const given = { ...withoutUndefined(changes), organizationId, endpointId }
      const { organizationId: owner, endpointId: id, actor, ...input } = read(UpdateSchema, given, action)
      if (input.url !== undefined) await checkUrl(input.url, action)
      const entry = makeEntry('endpoint.updated', id, actor)
      return found(await store.endpoints.update(owner, id, input, entry), action)
    },

    pause: move({ verb: 'pause', to: 'paused', from: ['enabled'], audited: 'endpoint.paused' }),
    resume: move({ verb: 'resume', to: 'enabled', from: ['paused'], audited: 'endpoint.resumed' }),
    disable: move({
      verb: 'disable',
      to: 'disabled',
      from: ['enabled', 'paused'],
      audited: 'endpoint.disabled',
    }),
    enable: move({
      verb: 'enable',
      to: 'enabled',
      from: ['paused', 'disabled'],
      audited: 'endpoint.enabled',
    }),

    async remove(organizationId, endpointId, { actor } = {}) {
      const action = 'Cannot remove a webhook endpoint'
      const input = read(EndpointRefSchema, { organizationId, endpointId, actor }, action)
      const { organizationId: owner, endpointId: id } = input
      const wasThere = await store.endpoints.remove(owner, id, makeEntry('endpoint.removed', id, input.actor))
      found(wasThere || null, action)
    },

    async rotateSecret(organizationId, endpointId, { overlapMs = OVERLAP_MS, actor } = {}) {
      const action = 'Cannot rotate the secret of a webhook endpoint'
      const input = read(RotateSecretSchema, { organizationId, endpointId, overlapMs, actor }, action)
      const { organizationId: owner, endpointId: id, overlapMs: overlap } = input
      const secret = generateSigningSecret()
      const sealedSecret = sealer.seal(secret, { organizationId: owner, endpointId: id })
      if (overlap > 0) await checkPresentSecret(owner, id, action)
      const entry = makeEntry('endpoint.secret_rotated', id, input.actor, { overlapMs: overlap })
      const endpoint = await store.endpoints.rotateSecret(owner, id, sealedSecret, overlap, entry)
      return { secret, ...found(endpoint, action) }
    },

    sendTest: createTestDelivery(store, tools),
  }
}

/** How every endpoint begins. */
const UNTOUCHED = {
  state: 'enabled',
  disabledReason: null,
  failingSince: null,
  failures: 0,
  previousSecretExpiresAt: null,
} as const
