import { type BusinessApiStore, SCOPES } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { DAY_MS } from './year.ts'

/** The API keys of an organization. There is one for each kind of response to try out. */
export interface DemoKeys {
  /** Has all scopes. */
  readonly all: string
  /** Only has scopes that end with `:read`. */
  readonly readOnly: string
  readonly revoked: string
  readonly expired: string
}

/** Creates the keys of an organization, like an administrator would in the developer settings. */
export async function createDemoKeys(store: BusinessApiStore, organizationId: string): Promise<DemoKeys> {
  const { apiKeys } = createDeveloperSettings(store)
  const readScopes = SCOPES.filter((scope) => scope.endsWith(':read'))
  // An expiry in the past isn't allowed, so we create this key with yesterday's clock.
  const yesterday = createDeveloperSettings(store, { clock: () => Date.now() - DAY_MS })
  const expiresAt = new Date(Date.now() - DAY_MS / 2)
  const [all, readOnly, revoked, expired] = await Promise.all([
    apiKeys.create(organizationId, { name: 'Website', scopes: SCOPES }),
    apiKeys.create(organizationId, { name: 'Reporting', scopes: readScopes }),
    apiKeys.create(organizationId, { name: 'Zapier', scopes: SCOPES }),
    yesterday.apiKeys.create(organizationId, { name: 'Old ERP export', scopes: SCOPES, expiresAt }),
  ])
  await apiKeys.revoke(organizationId, revoked.id)
  return { all: all.key, readOnly: readOnly.key, revoked: revoked.key, expired: expired.key }
}
