/** All built-in API key scopes (see section 5, rule 3 of the spec). */
export const SCOPES = [
  'clients:read',
  'clients:write',
  'leads:read',
  'leads:write',
  'invoices:read',
  'proposals:read',
  'projects:read',
] as const

/** A built-in scope, one of {@link SCOPES}. */
export type Scope = (typeof SCOPES)[number]

/** The name of a resource that can be listed, as used in its path and scopes. */
export type Resource = NamedBy<Scope, 'read'>
/** The name of a resource that can be created. */
export type WritableResource = NamedBy<Scope, 'write'>
type NamedBy<Any, Verb extends string> = Any extends `${infer Name}:${Verb}` ? Name : never

/** The name of a custom scope defined by the host, for example `bookings:read`. */
export type OwnScope = `${string}:read` | `${string}:write`

/** Any scope that a key can have. */
export type KeyScope = Scope | OwnScope

/** A service with custom scopes in addition to {@link SCOPES}. */
export interface ScopeOwner {
  /** Custom scopes defined by the host. */
  readonly scopes: readonly OwnScope[]
}

/** All scope names in a service, including the host's custom scopes. */
export type ScopeOf<Owner extends ScopeOwner> =
  | Scope
  | (`${string}:read` extends Owner['scopes'][number] ? never : Owner['scopes'][number])

/** Returns all scopes that a service's keys can have, built-in ones first. */
export function scopesOf({ scopes }: ScopeOwner): readonly KeyScope[] {
  return [...SCOPES, ...scopes]
}

/** Matches a noun and an access level. Safe in headers, space-separated lists and form field names. */
const OWN_SCOPE = /^(?=.{1,64}$)[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*:(?:read|write)$/

/**
 * Reads a service's `scopes` option.
 *
 * @throws `TypeError` if a name is invalid, repeated or built in
 */
export function readScopes<Own extends ScopeOwner['scopes']>(given = [] as ScopeOwner['scopes'] as Own): Own {
  const seen = new Set<string>(SCOPES)
  const isScope = (scope: unknown): boolean => typeof scope === 'string' && OWN_SCOPE.test(scope)
  const areScopes = Array.isArray(given) && given.every(isScope)
  if (areScopes && given.every((scope) => seen.size < seen.add(scope).size))
    return Object.freeze([...given]) as never
  throw new TypeError(
    "Option 'scopes' must be a list of new names, each once, like 'bookings:read' and 'bookings:write'",
  )
}

/** All resources that can be listed, in the same order as the scopes. */
export const RESOURCES: readonly Resource[] = SCOPES.flatMap((scope) =>
  scope.endsWith(':read') ? [scope.replace(':read', '') as Resource] : [],
)
