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
  const readScopes = SCOPES.filter((scope) => scope.endsWith(':read'))
  const daysAgo = (days: number) =>
    createDeveloperSettings(store, { clock: () => Date.now() - days * DAY_MS }).apiKeys
  const expiresAt = new Date(Date.now() - DAY_MS / 2)
  const [all, readOnly, revoked, expired] = await Promise.all([
    daysAgo(75).create(organizationId, { name: 'Website', scopes: SCOPES }),
    daysAgo(40).create(organizationId, { name: 'Reporting', scopes: readScopes }),
    daysAgo(70).create(organizationId, { name: 'Zapier', scopes: SCOPES }),
    daysAgo(90).create(organizationId, { name: 'Old ERP export', scopes: SCOPES, expiresAt }),
  ])
  await daysAgo(20).revoke(organizationId, revoked.id)
  return { all: all.key, readOnly: readOnly.key, revoked: revoked.key, expired: expired.key }
}
