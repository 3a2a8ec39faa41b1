import { isDeepStrictEqual } from 'node:util'
import { INVALID_INPUT, INVALID_STATE, refused } from '../base/errors.ts'
import { type Call, found, type Optional } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { type EventOwner, eventTypes } from '../resources/own-events.ts'
import type { EndpointChoices } from '../webhooks/endpoint-choices.ts'
import type { EndpointStore, HeaderChange, WebhookEndpoint } from '../webhooks/endpoints.ts'
import type { SecretSealer } from '../webhooks/secret-sealing.ts'
import { isStandardSecret } from '../webhooks/standard-webhooks.ts'
import { type Acting, audited, type MakeEntry } from './calls.ts'
import { checkHeaderBounds, type HeaderPatch, patchHeaders } from './endpoint-headers.ts'
import { checkUrl, type JudgeUrl, type ReadUpdate, typesRequirement } from './endpoint-inputs.ts'

/** Changes of a webhook endpoint; absent fields stay. */
export interface EndpointUpdate<Type extends string = EventType>
  extends Acting,
    Optional<EndpointChoices<Type>> {
  /**
   * Changes of the organization's own headers, which are sent with every attempt: a value is set, null removes, other
   * headers stay; null in place of the object removes all. At most 20 headers and 8 KiB in all, and no header that the
   * service sets itself. The values are sealed, and no call shows a value again.
   */
  readonly headers?: HeaderPatch | undefined
  /** The endpoint that the caller has seen: if another update has changed it since, nothing is changed, with `invalid_state`. Default: not compared. */
  readonly replaces?: Pick<WebhookEndpoint, 'version'> | undefined
}

/** The parts with which endpoints are changed. */
export interface EndpointUpdateTools extends EventOwner {
  readonly sealer: SecretSealer
  readonly judge: JudgeUrl
  readonly makeEntry: MakeEntry
}

/** Maximum number of tries to change headers while other changes interfere; then the change is rejected. */
const ATTEMPTS_MAX = 20

/** Creates the call `update`. */
export function createEndpointUpdate(
  { endpoints }: Pick<BusinessApiStore, 'endpoints'>,
  { sealer, judge, makeEntry, events }: EndpointUpdateTools,
  readUpdate: ReadUpdate,
): (organizationId: string, endpointId: string, update: EndpointUpdate<string>) => Promise<WebhookEndpoint> {
  const known = eventTypes({ events })

  /** Rejects types that neither the service nor the endpoint has: an older version of the host may leave newer types as they are. */
  async function checkTypes({ organizationId, action }: Call<unknown>, id: string, types: readonly string[]) {
    const others = types.filter((type) => !known.includes(type))
    if (others.length === 0) return
    const present = found(await endpoints.get(organizationId, id), action).types ?? []
    if (others.every((type) => present.includes(type))) return
    throw refused(action, INVALID_INPUT, `types ${typesRequirement(known)}`, ['types'])
  }

  return async (organizationId, endpointId, update) => {
    const call = readUpdate(organizationId, update, { endpointId })
    const { endpointId: id, headers: patch, replaces, ...fields } = call.input
    if (fields.types) await checkTypes(call, id, fields.types)
    if (fields.url !== undefined) await checkUrl(judge, fields.url, call.action)
    if (fields.standardWebhooks) await checkSecret({ endpoints, sealer }, call, id)
    const request = { ...audited(makeEntry, call, 'endpoint.updated', id), endpointId: id }
    for (let attempt = 1; attempt <= (replaces ? 1 : ATTEMPTS_MAX); attempt++) {
      const headers =
        patch === undefined ? undefined : await changeHeaders({ endpoints, sealer }, call, id, patch)
      const changes = headers ? { ...fields, headers } : fields
      const { outcome, endpoint } = found(
        await endpoints.update({ ...request, changes, replaces: replaces?.version }),
        call.action,
      )
      if (outcome === 'changed') return endpoint
    }
    throw refused(call.action, INVALID_STATE, 'other calls change the endpoint at the same time: try again')
  }
}

/** Checks the current secret only: a rotation makes a secret that Standard Webhooks can decode. */
async function checkSecret(
  { endpoints, sealer }: { readonly endpoints: EndpointStore; readonly sealer: SecretSealer },
  { organizationId, action }: Call<unknown>,
  endpointId: string,
): Promise<void> {
  const { sealedSecrets } = found(await endpoints.getTarget(organizationId, endpointId), action)
  const [current = ''] = sealedSecrets
  if (isStandardSecret(sealer.unseal(current, { organizationId, endpointId }))) return
  throw refused(
    action,
    INVALID_STATE,
    'Standard Webhooks cannot decode its signing secret: rotate the secret first',
  )
}

/** Seals the present headers with a patch applied; undefined when the patch changes nothing. */
async function changeHeaders(
  { endpoints, sealer }: { readonly endpoints: EndpointStore; readonly sealer: SecretSealer },
  { organizationId, action }: Call<unknown>,
  endpointId: string,
  patch: HeaderPatch,
): Promise<HeaderChange | undefined> {
  const target = found(await endpoints.getTarget(organizationId, endpointId), action)
  const { sealedHeaders: replaces } = target
  const ref = { organizationId, endpointId }
  // Removes all headers without opening the sealed form: the way out after the loss of the key.
  if (patch === null) return replaces === null ? undefined : { ...sealer.sealHeaders({}, ref), replaces }
  const present = sealer.unsealHeaders(target, ref)
  const headers = patchHeaders(present, patch)
  if (isDeepStrictEqual(headers, present)) return undefined
  checkHeaderBounds(headers, action)
  return { ...sealer.sealHeaders(headers, ref), replaces }
}
