import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { ResolvedAccess } from '../access.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge } from '../views/badge.ts'

/** Names an endpoint for people: by the description, else by the URL. */
export function nameOf({ description, url }: Pick<WebhookEndpoint, 'description' | 'url'>): string {
  return description || url
}

/** Names an endpoint for a person: without the ability to see endpoints by the id, because a URL may hold a token. */
export function nameFor(
  access: ResolvedAccess,
  endpoint: Pick<WebhookEndpoint, 'id' | 'description' | 'url'>,
): string {
  return access.can('endpoints:read') ? nameOf(endpoint) : endpoint.description || endpoint.id
}

/** Returns the first 60 characters of {@link nameFor}, because a list repeats the name in each line. */
export function shortName(...given: Parameters<typeof nameFor>): string {
  return [...nameFor(...given)].slice(0, 60).join('')
}

/** The state of an endpoint as a word. */
export function endpointState(
  t: Texts,
  { state, failures }: Pick<WebhookEndpoint, 'state' | 'failures'>,
): Html {
  if (state === 'paused') return badge('wait', t`Paused`)
  if (state === 'disabled') return badge('bad', t`Disabled`)
  return failures > 0 ? badge('wait', t`Failing`) : badge('good', t`Enabled`)
}

/** The reason why an endpoint is disabled; empty for an endpoint that is not disabled. */
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

/** The types that an endpoint wants, as words. */
export function typesText(t: Texts, types: readonly string[] | null): string {
  if (types === null) return t`All events`
  return types.length === 1 ? (types[0] ?? '') : t.count(types.length, '1 event', '{0} events')
}

/** Groups event types by resource, in their order. */
export function typesByResource(
  types: readonly string[],
): readonly (readonly [resource: string, types: readonly string[]])[] {
  const resources = [...new Set(types.map(resourceOf))]
  return resources.map((resource) => [resource, types.filter((type) => resourceOf(type) === resource)])
}

/** The resource of an event type, by which the types are grouped. */
export function resourceOf(type: string): string {
  return type.split('.', 1)[0] ?? ''
}
