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
