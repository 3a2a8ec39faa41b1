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
export type Resource = NamedBy<Scope, 'read'>
/** The name of a resource with a create operation. */
export type WritableResource = NamedBy<Scope, 'write'>
type NamedBy<Any, Verb extends string> = Any extends `${infer Name}:${Verb}` ? Name : never

/** Every resource with a list, in the order of the scopes. */
export const RESOURCES: readonly Resource[] = SCOPES.flatMap((scope) =>
  scope.endsWith(':read') ? [scope.replace(':read', '') as Resource] : [],
)
