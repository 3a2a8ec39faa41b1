/** Every scope that an API key can carry (specification, section 5, rule 3). */
export const SCOPES = [
  'clients:read',
  'clients:write',
  'leads:read',
  'leads:write',
  'invoices:read',
  'proposals:read',
  'projects:read',
] as const

/** A scope's name: a member of {@link SCOPES}. */
export type Scope = (typeof SCOPES)[number]

/** The name of a resource with a list, as in its path and its scopes. */
export type Resource = NamedBy<Scope, 'read'>
/** The name of a resource with a create operation. */
export type WritableResource = NamedBy<Scope, 'write'>
type NamedBy<Any, Verb extends string> = Any extends `${infer Name}:${Verb}` ? Name : never

/** The name of one of the host's own scopes: `bookings:read`. */
export type OwnScope = `${string}:read` | `${string}:write`

/** The name of a scope that a key can carry. */
export type KeyScope = Scope | OwnScope

/** What has scopes of its own beside {@link SCOPES}: a service. */
export interface ScopeOwner {
  /** The host's own scopes. */
  readonly scopes: readonly OwnScope[]
}

/** The names of the scopes that a service has: the library's, and its own by name. */
export type ScopeOf<Owner extends ScopeOwner> =
  | Scope
  | (`${string}:read` extends Owner['scopes'][number] ? never : Owner['scopes'][number])

/** Lists the scopes that a key of a service can carry: the library's, then the host's own. */
export function scopesOf({ scopes }: ScopeOwner): readonly KeyScope[] {
  return [...SCOPES, ...scopes]
}

/** A noun and what a key may do: safe in headers, in lists separated by spaces and in names of forms. */
const OWN_SCOPE = /^(?=.{1,64}$)[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*:(?:read|write)$/

/**
 * Reads the option `scopes` of a service.
 *
 * @throws `TypeError` for an invalid name, a name of the library, and a repeated name
 */
export function readScopes<Own extends ScopeOwner['scopes']>(given = [] as ScopeOwner['scopes'] as Own): Own {
  const seen = new Set<string>(SCOPES)
  const areScopes = Array.isArray(given) && given.every((scope) => OWN_SCOPE.test(scope))
  if (areScopes && given.every((scope) => seen.size < seen.add(scope).size))
    return Object.freeze([...given]) as never
  throw new TypeError(
    "Cannot use option 'scopes' because it must be a list of new names, each once, like 'bookings:read' and 'bookings:write'",
  )
}

/** Every resource with a list, in the order of the scopes. */
export const RESOURCES: readonly Resource[] = SCOPES.flatMap((scope) =>
  scope.endsWith(':read') ? [scope.replace(':read', '') as Resource] : [],
)
