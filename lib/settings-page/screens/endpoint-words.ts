import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { ResolvedAccess } from '../access.ts'
import type { Context } from '../context.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge, type Tone } from '../views/elements.ts'

/** Returns the endpoint in the request's path. @throws `BusinessApiError` with code `not_found` */
export function endpointOf({ settings, access, params }: Context): Promise<WebhookEndpoint> {
  return settings.endpoints.get(access.organizationId, params.id ?? '')
}

/** Returns an endpoint's display name: the description, otherwise the URL. */
export function nameOf({ description, url }: Pick<WebhookEndpoint, 'description' | 'url'>): string {
  return description || url
}

/** Returns the name that a person may see. A URL can contain a token, so others see the ID. */
export function nameFor(
  access: ResolvedAccess,
  endpoint: Pick<WebhookEndpoint, 'id' | 'description' | 'url'>,
): string {
  return access.can('endpoints:read') ? nameOf(endpoint) : endpoint.description || endpoint.id
}

/** Returns the first 60 characters of {@link nameFor}, because lists repeat it in each line. */
export function shortName(...given: Parameters<typeof nameFor>): string {
  return [...nameFor(...given)].slice(0, 60).join('')
}

/** Returns the tone of a notice about an endpoint that is failing or disabled. */
export function troubleTone({ disabledReason }: WebhookEndpoint): Tone {
  return disabledReason === 'administrator' ? 'quiet' : 'bad'
}

/** Renders an endpoint's status as a badge. */
export function endpointState(
  t: Texts,
  { state, failures }: Pick<WebhookEndpoint, 'state' | 'failures'>,
): Html {
  if (state === 'paused') return badge('quiet', t`Paused`)
  if (state === 'disabled') return badge('quiet', t`Disabled`)
  return failures > 0 ? badge('bad', t`Failing`) : badge('good', t`Enabled`)
}

/** Describes why an endpoint is disabled; empty if it isn't. */
export function disabledReason(t: Texts, { disabledReason }: WebhookEndpoint): string {
  switch (disabledReason) {
    case null:
      return ''
    case 'gone':
      return t`The endpoint returned 410 Gone.`
    case 'failing':
      return t`Too many deliveries failed.`
    default:
      return t`An administrator disabled this endpoint.`
  }
}

/** Formats an endpoint's event types. */
export function typesText(t: Texts, types: readonly string[] | null): string {
  if (types === null) return t`All events`
  return types.length === 1 ? (types[0] ?? '') : t.count(types.length, '1 event', '{0} events')
}

/** Groups event types by resource, keeping their order. */
export function typesByResource(
  types: readonly string[],
): readonly (readonly [resource: string, types: readonly string[]])[] {
  const groups = new Map<string, string[]>()
  for (const type of types) {
    const resource = resourceOf(type)
    const group = groups.get(resource)
    if (group) group.push(type)
    else groups.set(resource, [type])
  }
  return [...groups]
}

/** Returns the resource of an event type. */
export function resourceOf(type: string): string {
  return type.split('.', 1)[0] ?? ''
}
