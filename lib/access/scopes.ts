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

/** The name of a scope: a member of {@link SCOPES}. */
export type Scope = (typeof SCOPES)[number]

/** The name of a resource with a list, as in its path and its scopes. */
export type Resource = ReadBy<Scope>
type ReadBy<Any> = Any extends `${infer Name}:read` ? Name : never

/** The name of a scope of the host's own: `bookings:read`. */
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

const OWN_SCOPES_MAX = 100

/**
 * Reads the option `scopes` of a service.
 *
 * @throws `TypeError` for a name that is none, that the library has or that is given twice
 */
export function readScopes<Own extends readonly OwnScope[]>(given: Own | undefined): Own {
  if (given === undefined) return [] as readonly OwnScope[] as Own
  const refuse = (reason: string): never => {
    throw new TypeError(`Cannot use option 'scopes' because ${reason}`)
  }
  if (!Array.isArray(given) || given.length > OWN_SCOPES_MAX)
    return refuse(`it must be a list of at most ${OWN_SCOPES_MAX} names`)
  for (const [index, scope] of given.entries()) {
    if (typeof scope !== 'string' || !OWN_SCOPE.test(scope)) {
      refuse(
        `each must be a noun with :read or :write, as 'bookings:read': current value is ${JSON.stringify(scope)}`,
      )
    }
    if ((SCOPES as readonly string[]).includes(scope)) refuse(`'${scope}' exists already`)
    if (given.indexOf(scope) !== index) refuse(`'${scope}' is in it twice`)
  }
  return Object.freeze([...given]) as readonly OwnScope[] as Own
}

/** Every resource with a list, in the order of the scopes. */
export const RESOURCES: readonly Resource[] = SCOPES.flatMap((scope) =>
  scope.endsWith(':read') ? [scope.replace(':read', '') as Resource] : [],
)
