import type { Ability } from './access.ts'
import type { Show } from './context.ts'
import * as key from './screens/key.ts'
import * as keys from './screens/keys.ts'
import * as newKey from './screens/new-key.ts'
import * as overview from './screens/overview.ts'

/** One kind of request that the page answers. */
interface Route {
  readonly method: 'GET' | 'POST'
  /** `:id` stands for an id. */
  readonly path: string
  /** Without this ability the path does not exist. */
  readonly reads: Ability | null
  /** Without this ability the act is refused. */
  readonly writes?: Ability
  readonly show: Show
}

/** The route of a request, with the ids of its path. */
export interface FoundRoute extends Route {
  readonly params: Readonly<Record<string, string>>
}

/** A path that other methods have. */
export interface WrongMethod {
  readonly allow: string
}

const ROUTES: readonly Route[] = [
  { method: 'GET', path: '/', reads: null, show: overview.show },
  ...both('/keys/new', 'keys', newKey),
  { method: 'GET', path: '/keys', reads: 'keys:read', show: keys.show },
  { method: 'GET', path: '/keys/:id', reads: 'keys:read', show: key.show },
  ...both('/keys/:id/rotate', 'keys', key.rotation),
  ...both('/keys/:id/revoke', 'keys', key.revocation),
]

/** A form, or a question before an act, and the act at the same path: a reload of the answer asks again. */
function both(
  path: string,
  subject: 'keys' | 'endpoints' | 'deliveries',
  { ask, act }: { readonly ask: Show; readonly act: Show },
): readonly Route[] {
  const abilities = { reads: `${subject}:read`, writes: `${subject}:write` } as const
  return [
    { method: 'GET', path, ...abilities, show: ask },
    { method: 'POST', path, ...abilities, show: act },
  ]
}

const PATTERNS = ROUTES.map((route) => ({
  route,
  pattern: new RegExp(`^${route.path.replace(':id', '(?<id>[\\w-]{1,64})')}$`),
}))

/** Finds the route of a request; null for a path that has none. The first route in the table wins. */
export function findRoute(method: string, path: string): FoundRoute | WrongMethod | null {
  const sought = method === 'HEAD' ? 'GET' : method
  const matching = PATTERNS.filter(({ pattern }) => pattern.test(path))
  const [first] = matching
  if (!first) return null
  const found = matching.find(({ route }) => route.method === sought)
  if (!found) return { allow: [...new Set(matching.map(({ route }) => route.method))].join(', ') }
  return { ...found.route, params: { ...found.pattern.exec(path)?.groups } }
}
