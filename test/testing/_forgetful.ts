import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { captureWebhooks } from '../../lib/testing.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'

// A test that fails before it closes anything.
const organizationId = 'org_42'
const store = createMemoryStore()
const settings = createDeveloperSettings(store, { localDevelopment: true, allowPlaintextSecrets: true })
const loop = createDeliveryLoop(store, createWebhookSender({ localDevelopment: true }), {
  allowPlaintextSecrets: true,
})
const captured = await captureWebhooks({ settings, organizationId })
await createPlatform(store).clients.create(organizationId, { name: 'Atlas' })
await loop.runOnce()
process.stdout.write((await captured.next('client.created')).type)
