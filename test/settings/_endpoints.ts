import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { ServiceOptions } from '../../lib/service.ts'
import { createDeveloperSettings, type DeveloperSettingsOptions } from '../../lib/settings.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { named } from '../_service.ts'
import { claim, newOrganization, publish, record } from './_stores.ts'

export const NOW = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
export const DAY_MS = 24 * 60 * 60 * 1000
export const KEY = randomBytes(32)
export const URL = 'https://hooks.example.com/business?from=%C3%A9#x'
export const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/

/** Creates a function that sets up a new organization without DNS lookups. */
export function createSetUp(open: () => BusinessApiStore) {
  return function setUp(options: DeveloperSettingsOptions = {}, names: ServiceOptions = {}) {
    const store = named(open(), names)
    const settings = createDeveloperSettings(store, {
      clock: () => NOW,
      secretKeys: [KEY],
      allowPrivateNetworks: true,
      ...options,
    })
    return { store, settings, organizationId: newOrganization() }
  }
}

/** Returns the secrets that currently sign for an endpoint, current one first. */
export async function readSigningSecrets(store: BusinessApiStore, organizationId: string): Promise<string[]> {
  await publish(store, organizationId)
  const claimed = await claim(store, organizationId)
  const [delivery] = claimed
  assert.ok(delivery && claimed.length === 1)
  await record(store, claimed, 'delivered')
  const sealer = createSecretSealer({ secretKeys: [KEY], allowPlaintextSecrets: true })
  return delivery.sealedSecrets.map((sealed) => sealer.unseal(sealed, delivery))
}
