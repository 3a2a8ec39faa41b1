import { type BusinessApiStore, SCOPES } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { DAY_MS } from './year.ts'

/** API keys of an organization, one for each kind of answer to try. */
export interface DemoKeys {
  /** Every scope. */
  readonly all: string
  /** Only the scopes that end in `:read`. */
  readonly readOnly: string
  readonly revoked: string
  readonly expired: string
}

/** Creates an organization's keys, as its administrator would in the developer settings. */
export async function createDemoKeys(store: BusinessApiStore, organizationId: string): Promise<DemoKeys> {
  const { apiKeys } = createDeveloperSettings(store)
  const readScopes = SCOPES.filter((scope) => scope.endsWith(':read'))
  // Settings refuse an expiry in the past, so this key is made with yesterday's clock.
  const yesterday = createDeveloperSettings(store, { clock: () => Date.now() - DAY_MS })
  const expiresAt = new Date(Date.now() - DAY_MS / 2)
  const [all, readOnly, revoked, expired] = await Promise.all([
    apiKeys.create(organizationId, { name: 'Everything', scopes: SCOPES }),
    apiKeys.create(organizationId, { name: 'Read only', scopes: readScopes }),
    apiKeys.create(organizationId, { name: 'Revoked', scopes: SCOPES }),
    yesterday.apiKeys.create(organizationId, { name: 'Expired', scopes: SCOPES, expiresAt }),
  ])
  await apiKeys.revoke(organizationId, revoked.id)
  return { all: all.key, readOnly: readOnly.key, revoked: revoked.key, expired: expired.key }
}
