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

/** Changes to a webhook endpoint. Missing properties stay unchanged. */
export interface EndpointUpdate<Type extends string = EventType>
  extends Acting,
    Optional<EndpointChoices<Type>> {
  /**
   * Changes to the custom headers, which are sent with every attempt. A string sets a header, `null` removes it, and
   * all other headers stay unchanged. If you pass `null` instead of an object, all headers are removed. An endpoint can
   * have up to 20 headers (8 KiB in total). You can't override headers that the service sets. Values are stored sealed
   * and can't be shown again.
   */
  readonly headers?: HeaderPatch | undefined
  /** The endpoint as you last saw it. If it has been updated since, the call fails with `invalid_state`. Optional. */
  readonly replaces?: Pick<WebhookEndpoint, 'version'> | undefined
}

/** Dependencies of the `update` call. */
export interface EndpointUpdateTools extends EventOwner {
  readonly sealer: SecretSealer
  readonly judge: JudgeUrl
  readonly makeEntry: MakeEntry
}

/** How many times to try if other calls change the headers at the same time. */
const ATTEMPTS_MAX = 20

/** Creates the `update` call. */
export function createEndpointUpdate(
  { endpoints }: Pick<BusinessApiStore, 'endpoints'>,
  { sealer, judge, makeEntry, events }: EndpointUpdateTools,
  readUpdate: ReadUpdate,
): (organizationId: string, endpointId: string, update: EndpointUpdate<string>) => Promise<WebhookEndpoint> {
  const known = eventTypes({ events })

  /** Rejects types known to neither the service nor the endpoint. An older host version may keep newer types. */
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

/** Only checks the current secret, because the next rotation will create one that Standard Webhooks can decode. */
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

/** Applies a patch to the current headers and seals the result. Returns `undefined` if nothing changed. */
async function changeHeaders(
  { endpoints, sealer }: { readonly endpoints: EndpointStore; readonly sealer: SecretSealer },
  { organizationId, action }: Call<unknown>,
  endpointId: string,
  patch: HeaderPatch,
): Promise<HeaderChange | undefined> {
  const target = found(await endpoints.getTarget(organizationId, endpointId), action)
  const { sealedHeaders: replaces } = target
  const ref = { organizationId, endpointId }
  // We don't need to open the headers to remove them all, so this works even if the key was lost.
  if (patch === null) return replaces === null ? undefined : { ...sealer.sealHeaders({}, ref), replaces }
  const present = sealer.unsealHeaders(target, ref)
  const headers = patchHeaders(present, patch)
  if (isDeepStrictEqual(headers, present)) return undefined
  checkHeaderBounds(headers, action)
  return { ...sealer.sealHeaders(headers, ref), replaces }
}
