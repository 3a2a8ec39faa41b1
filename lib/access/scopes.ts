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

/** Every resource with a list, in the order of the scopes. */
export const RESOURCES: readonly Resource[] = SCOPES.flatMap((scope) =>
  scope.endsWith(':read') ? [scope.replace(':read', '') as Resource] : [],
)
