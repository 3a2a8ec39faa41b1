import assert from 'node:assert/strict'
import type { AuditEntry } from '../../lib/access/audit.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import type { WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import { named } from '../_service.ts'
import { newOrganization } from './_stores.ts'

export const URL = 'https://hooks.example.com/t0ken?key=t0ken'
export const SENDER: WebhookSender = {
  send: async () => ({ status: 204, error: null, bodyExcerpt: '', durationMs: 1 }),
  close: async () => {},
}

/** What a call needs. */
export interface Given {
  readonly settings: DeveloperSettings
  readonly store: BusinessApiStore
  readonly organizationId: string
  /** Ids of an existing endpoint and key. */
  readonly endpointId: string
  readonly keyId: string
}

/** Creates a function that sets up an organization with an endpoint and a key. */
export function createSetUp(open: () => BusinessApiStore) {
  return async function setUp(): Promise<Given> {
    const store = named(open(), { importedKeys: { pattern: /^old_/ } })
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
      sender: SENDER,
    })
    const organizationId = newOrganization()
    const { id: endpointId } = await settings.endpoints.register(organizationId, { url: URL })
    const key = { name: 'Shop', scopes: ['clients:read'] } as const
    const { id: keyId } = await settings.apiKeys.create(organizationId, key)
    return { settings, store, organizationId, endpointId, keyId }
  }
}

export async function entriesOf({ settings, organizationId }: Given): Promise<readonly AuditEntry[]> {
  const { data, next } = await settings.audit.list(organizationId, { limit: 200 })
  assert.equal(next, null)
  return data
}
