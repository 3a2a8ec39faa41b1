import type { Ability } from './access.ts'
import type { Act, Show } from './context.ts'
import { unlessStale } from './form-stamp.ts'
import * as audit from './screens/audit.ts'
import { backfill } from './screens/backfill.ts'
import * as deliveries from './screens/deliveries.ts'
import * as delivery from './screens/delivery.ts'
import * as endpoint from './screens/endpoint.ts'
import { change, registration } from './screens/endpoint-form.ts'
import { disabling, removal, secretRotation } from './screens/endpoint-questions.ts'
import * as endpoints from './screens/endpoints.ts'
import * as events from './screens/events.ts'
import * as keys from './screens/keys.ts'
import * as newKey from './screens/new-key.ts'
import * as overview from './screens/overview.ts'
import { recovery, selection } from './screens/recovery.ts'
import * as reference from './screens/reference.ts'
import * as requests from './screens/requests.ts'

/** A route of the page. */
export interface PageRoute {
  readonly method: 'GET' | 'POST'
  /** The path pattern, in which `:id` matches an ID. */
  readonly path: string
  /** The ability needed to see the path; without it, the path doesn't exist. */
  readonly reads: Ability | null
  /** The ability needed for the action; without it, the request is rejected. */
  readonly writes?: Ability
  readonly show: Show
}

/** The matched route with its path parameters. */
export interface FoundRoute extends PageRoute {
  readonly params: Readonly<Record<string, string>>
}

/** A path that exists only for other methods. */
export interface WrongMethod {
  readonly allow: string
  /** The path of the page with the form; `null` unless a form's action is opened as a page, for example when its result is reloaded. */
  readonly page: string | null
}

/** All routes of the page. The first match wins. */
export const ROUTES: readonly PageRoute[] = [
  { method: 'GET', path: '/', reads: null, show: overview.show },
  ...both('/keys/new', 'keys', newKey),
  { method: 'GET', path: '/keys', reads: 'keys:read', show: keys.list },
  { method: 'GET', path: '/keys/:id', reads: 'keys:read', show: keys.show },
  ...both('/keys/:id/edit', 'keys', keys.naming),
  ...both('/keys/:id/rotate', 'keys', keys.rotation),
  ...both('/keys/:id/revoke', 'keys', keys.revocation),

  ...both('/endpoints/new', 'endpoints', registration),
  { method: 'GET', path: '/endpoints', reads: 'endpoints:read', show: endpoints.list },
  { method: 'GET', path: '/endpoints/:id', reads: 'endpoints:read', show: endpoint.show },
  ...both('/endpoints/:id/edit', 'endpoints', change),
  ...both('/endpoints/:id/disable', 'endpoints', disabling),
  ...both('/endpoints/:id/delete', 'endpoints', removal),
  ...both('/endpoints/:id/rotate', 'endpoints', secretRotation),
  ...both('/endpoints/:id/backfill', 'endpoints', backfill),
  act('/endpoints/:id/test', 'endpoints', endpoint.testing),
  act('/endpoints/:id/pause', 'endpoints', endpoint.moves.pause),
  act('/endpoints/:id/resume', 'endpoints', endpoint.moves.resume),
  act('/endpoints/:id/enable', 'endpoints', endpoint.moves.enable),

  act('/deliveries/resend', 'deliveries', selection),
  ...both('/deliveries/recover', 'deliveries', recovery),
  { method: 'GET', path: '/deliveries', reads: 'deliveries:read', show: deliveries.show },
  { method: 'GET', path: '/deliveries/:id', reads: 'deliveries:read', show: delivery.show },
  ...both('/deliveries/:id/cancel', 'deliveries', delivery.cancellation),
  act('/deliveries/:id/redeliver', 'deliveries', delivery.redelivery),

  { method: 'GET', path: '/events', reads: 'deliveries:read', show: events.list },
  { method: 'GET', path: '/events/:id', reads: 'deliveries:read', show: events.show },
  act('/events/:id/redeliver', 'deliveries', events.redelivery),

  { method: 'GET', path: '/requests', reads: 'requests:read', show: requests.show },

  { method: 'GET', path: '/audit', reads: 'audit:read', show: audit.show },

  { method: 'GET', path: '/reference', reads: null, show: reference.show },
  { method: 'GET', path: '/reference/openapi.json', reads: null, show: reference.download },
  { method: 'GET', path: '/reference/webhooks', reads: null, show: reference.showWebhooks },
  { method: 'GET', path: '/reference/:id', reads: null, show: reference.showOperation },
]

type Subject = 'keys' | 'endpoints' | 'deliveries'

/** A route of an action whose form is only a button on another page. */
function act(path: string, subject: Subject, screen: Act): PageRoute {
  const abilities = { reads: `${subject}:read`, writes: `${subject}:write` } as const
  return { method: 'POST', path, ...abilities, show: unlessStale(screen) }
}

/** The routes of a form and its action at the same path, so reloading the result shows the form again. */
function both(path: string, subject: Subject, screen: Act): readonly PageRoute[] {
  const posted = act(path, subject, screen)
  return [{ ...posted, method: 'GET', show: screen.ask }, posted]
}

const PATTERNS = ROUTES.map((route) => ({
  route,
  pattern: new RegExp(`^${route.path.replace(':id', '(?<id>[\\w-]{1,64})')}$`),
}))

/** Finds a request's route; `null` if the path is unknown. The first match wins. */
export function findRoute(method: string, path: string): FoundRoute | WrongMethod | null {
  const sought = method === 'HEAD' ? 'GET' : method
  const first = PATTERNS.find(({ pattern }) => pattern.test(path))?.route
  if (!first) return null
  const matching = PATTERNS.filter(({ route }) => route.path === first.path)
  const found = matching.find(({ route }) => route.method === sought)
  if (!found) {
    const allow = matching.map(({ route }) => route.method).join(', ')
    return { allow, page: sought === 'GET' ? path.slice(0, path.lastIndexOf('/')) : null }
  }
  return { ...found.route, params: { ...found.pattern.exec(path)?.groups } }
}
