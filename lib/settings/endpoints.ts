import * as v from 'valibot'
import { type DestinationVerdict, URL_MAX_LENGTH } from '../destination.ts'
import type { EndpointState, WebhookEndpoint } from '../endpoints.ts'
import { BusinessApiError, INVALID_INPUT, INVALID_STATE } from '../errors.ts'
import { EVENT_TYPES, type EventType } from '../events.ts'
import * as field from '../fields.ts'
import type { Clock, Ids } from '../ids.ts'
import { found, IdSchema, OrganizationIdSchema, read, withoutUndefined } from '../input.ts'
import { toTimestamp } from '../making.ts'
import { generateSigningSecret, type SecretSealer } from '../secret-sealing.ts'
import type { BusinessStore } from '../store.ts'
import { endpointHeaders } from './endpoint-headers.ts'

// --- Types ---

/** What of a webhook endpoint is to be changed; what is absent stays. */
export interface EndpointUpdate {
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
  pause(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /**
   * Ends a pause: what has been waiting is sent.
   *
   * @throws `BusinessApiError` with code `invalid_state` when it is disabled
   */
  resume(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /**
   * Claims nothing for it from now on: deliveries, those that wait too, are skipped and can be recovered later. What a
   * process has claimed before is still sent, some seconds long at most.
   */
  disable(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /** Sends again, whoever had disabled it, and forgets its failures. What was skipped stays so until it is recovered. */
  enable(organizationId: string, endpointId: string): Promise<WebhookEndpoint>

  /** Removes the endpoint and its secrets for good. Its delivery log stays until it is purged. */
  remove(organizationId: string, endpointId: string): Promise<void>

  /**
   * Makes a new secret the current one. The one before signs too for the overlap, so that the subscriber can change
   * over in its own time; one from an earlier rotation does not sign any more.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` when the host has given no key to seal the secret with
   */
  rotateSecret(
    organizationId: string,
    endpointId: string,
    options?: RotateSecretOptions,
  ): Promise<EndpointWithSecret>
}

/** Options of `rotateSecret`. */
export interface RotateSecretOptions {
  /** Milliseconds for which the secret before signs too; 0: not at all. Default 24 hours, at most 30 days. */
  readonly overlapMs?: number | undefined
}

// --- Inputs ---

const DAY_MS = 24 * 60 * 60 * 1000
const OVERLAP_MAX_MS = 30 * DAY_MS

const typesRequirement = `must be null, or one or more of ${EVENT_TYPES.join(', ')}, each once`
const overlapRequirement = `must be a whole number of milliseconds from 0 to ${OVERLAP_MAX_MS}`

const TypesSchema = v.nullable(
  v.pipe(
    v.array(v.picklist(EVENT_TYPES, typesRequirement), typesRequirement),
    v.minLength(1, typesRequirement),
    v.check((types) => new Set(types).size === types.length, typesRequirement),
  ),
)
const UrlSchema = v.pipe(
  field.text(1, URL_MAX_LENGTH),
  // A parser of URLs takes it out without a word: the log would show another text than was meant.
  v.check((url) => !/[\s\p{Cc}]/u.test(url), 'must not contain white space or control characters'),
)
const DescriptionSchema = field.text(0, 200)

const ListSchema = v.object({ organizationId: OrganizationIdSchema })
const RefSchema = v.object({ organizationId: OrganizationIdSchema, endpointId: IdSchema })
const RotateSchema = v.object({
  ...RefSchema.entries,
  overlapMs: v.pipe(
    v.number(overlapRequirement),
    v.check((ms) => Number.isInteger(ms) && ms >= 0 && ms <= OVERLAP_MAX_MS, overlapRequirement),
  ),
})

function createSchemas(headerPrefix: string) {
  const HeadersSchema = endpointHeaders(headerPrefix)
  return {
    RegisterSchema: v.object({
      organizationId: OrganizationIdSchema,
      url: UrlSchema,
      types: v.optional(TypesSchema, null),
      description: v.optional(DescriptionSchema, ''),
      headers: v.optional(HeadersSchema, {}),
    }),
    UpdateSchema: v.object({
      ...RefSchema.entries,
      url: v.exactOptional(UrlSchema),
      types: v.exactOptional(TypesSchema),
      description: v.exactOptional(DescriptionSchema),
      headers: v.exactOptional(HeadersSchema),
    }),
  }
}

// --- Calls ---

/** What endpoints are managed with. */
export interface EndpointTools {
  readonly sealer: Pick<SecretSealer, 'seal'>
  /** Whether events may be sent to a URL. */
  readonly judge: (url: string) => Promise<DestinationVerdict>
  /** Of the service's own headers: `X-SERVICE`. */
  readonly headerPrefix: string
  readonly ids: Ids
  readonly clock: Clock
}

/** Webhook endpoints as administrators manage them. */
export function createEndpointSettings(
  store: Pick<BusinessStore, 'endpoints'>,
  { sealer, judge, headerPrefix, ids, clock }: EndpointTools,
): EndpointSettings {
  const { RegisterSchema, UpdateSchema } = createSchemas(headerPrefix)

  async function checkUrl(url: string, action: string): Promise<void> {
    const verdict = await judge(url)
    // The verdict's detail is for operators: it would tell a customer what our network looks like from inside.
    if (verdict.allowed) return
    throw new BusinessApiError(INVALID_INPUT, `${action} as url was refused: ${verdict.reason}`)
  }

  async function move(
    ref: { readonly organizationId: string; readonly endpointId: string },
    state: EndpointState,
    from: readonly EndpointState[],
    action: string,
  ): Promise<WebhookEndpoint> {
    const { organizationId, endpointId } = read(RefSchema, ref, action)
    const endpoint = found(await store.endpoints.setState(organizationId, endpointId, state, from), action)
    if (endpoint.state === state) return endpoint
    throw new BusinessApiError(INVALID_STATE, `${action} as it is ${endpoint.state}`)
  }

  return {
    async register(organizationId, { url, types, description, headers }) {
      const action = 'Cannot register a webhook endpoint'
      const given = { organizationId, url, types, description, headers }
      const { organizationId: owner, ...input } = read(RegisterSchema, given, action)
      const id = ids('we')
      const secret = generateSigningSecret()
      // Before the name look-up: without a key to seal with, nothing that the URL says matters.
      const sealedSecret = sealer.seal(secret, { organizationId: owner, endpointId: id })
      await checkUrl(input.url, action)
      const shown = { id, ...input, createdAt: toTimestamp(clock()) }
      await store.endpoints.insert(owner, { ...shown, sealedSecret })
      return { secret, ...shown, ...UNTOUCHED }
    },

    async list(organizationId) {
      const input = read(ListSchema, { organizationId }, 'Cannot list webhook endpoints')
      return store.endpoints.list(input.organizationId)
    },

    async update(organizationId, endpointId, changes) {
      const action = 'Cannot update a webhook endpoint'
      const given = { ...withoutUndefined(changes), organizationId, endpointId }
      const { organizationId: owner, endpointId: id, ...input } = read(UpdateSchema, given, action)
      if (input.url !== undefined) await checkUrl(input.url, action)
      return found(await store.endpoints.update(owner, id, input), action)
    },

    pause: (organizationId, endpointId) =>
      move({ organizationId, endpointId }, 'paused', ['enabled'], 'Cannot pause a webhook endpoint'),

    resume: (organizationId, endpointId) =>
      move({ organizationId, endpointId }, 'enabled', ['paused'], 'Cannot resume a webhook endpoint'),

    disable: (organizationId, endpointId) =>
      move(
        { organizationId, endpointId },
        'disabled',
        ['enabled', 'paused'],
        'Cannot disable a webhook endpoint',
      ),

    enable: (organizationId, endpointId) =>
      move(
        { organizationId, endpointId },
        'enabled',
        ['paused', 'disabled'],
        'Cannot enable a webhook endpoint',
      ),

    async remove(organizationId, endpointId) {
      const action = 'Cannot remove a webhook endpoint'
      const input = read(RefSchema, { organizationId, endpointId }, action)
      const wasThere = await store.endpoints.remove(input.organizationId, input.endpointId)
      found(wasThere || null, action)
    },

    async rotateSecret(organizationId, endpointId, { overlapMs = DAY_MS } = {}) {
      const action = 'Cannot rotate the secret of a webhook endpoint'
      const input = read(RotateSchema, { organizationId, endpointId, overlapMs }, action)
      const { organizationId: owner, endpointId: id } = input
      const secret = generateSigningSecret()
      const sealedSecret = sealer.seal(secret, { organizationId: owner, endpointId: id })
      const endpoint = await store.endpoints.rotateSecret(owner, id, sealedSecret, input.overlapMs)
      return { secret, ...found(endpoint, action) }
    },
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
