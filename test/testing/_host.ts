import type { TestContext } from 'node:test'
import { createMemoryStore, type MemoryStore } from '../../lib/memory.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { createFakeClock, type FakeClock } from '../../lib/testing.ts'
import { createDeliveryLoop, createWebhookSender, type DeliveryLoop } from '../../lib/webhooks.ts'

// A host in memory, as used in a host's own tests.

/** A host whose clock is controlled by the test. */
export interface Host {
  readonly clock: FakeClock
  readonly store: MemoryStore
  readonly platform: Platform
  readonly settings: DeveloperSettings
  readonly loop: DeliveryLoop
}

export const ORGANIZATION = 'org_testing'
const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }

export function createHost(t: TestContext): Host {
  const clock = createFakeClock()
  const store = createMemoryStore({ clock })
  const sender = createWebhookSender(DEVELOPMENT)
  const loop = createDeliveryLoop(store, sender, {
    allowPlaintextSecrets: true,
    pollIntervalMs: 5,
    logger: false,
  })
  t.after(async () => {
    await loop.stop()
    await sender.close()
  })
  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, allowPlaintextSecrets: true, clock })
  return { clock, store, platform: createPlatform(store, { clock }), settings, loop }
}
