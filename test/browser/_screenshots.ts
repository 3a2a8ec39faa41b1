import { join } from 'node:path'
import { claim, publish, record } from '../settings/_stores.ts'
import { startHost } from '../settings-page/_host.ts'
import { ORGANIZATION } from '../settings-page/_page.ts'
import { launch } from './_browser.ts'

// Makes the pictures of the READMEs: npm run screenshots. The overview of a day on which an endpoint failed for some hours.

const DIRECTORY = join(import.meta.dirname, '..', '..', 'lib', 'settings-page', 'screenshots')
const HOUR_MS = 3_600_000
const TYPES = ['client.created', 'invoice.paid', 'lead.created', 'proposal.accepted'] as const

const host = await startHost({ isEmpty: true })
const { settings, store } = host
const { id: keyId } = await settings.apiKeys.create(ORGANIZATION, {
  name: 'Website',
  scopes: ['clients:read'],
})
await store.apiKeys.markUsed(ORGANIZATION, keyId)
const endpoints: Record<string, string> = {}
for (const description of ['Billing', 'Warehouse', 'CRM']) {
  const url = `https://hooks.example.com/${description.toLowerCase()}`
  endpoints[description] = (await settings.endpoints.register(ORGANIZATION, { url, description })).id
}
for (let hour = 23; hour >= 0; hour--) {
  for (let event = 0; event < 9 + Math.round(7 * Math.sin((23 - hour) / 4)); event++)
    await publish(store, ORGANIZATION, TYPES[event % TYPES.length])
  const claimed = await claim(store, ORGANIZATION)
  const endedAgoMs = hour * HOUR_MS
  const isDown = hour >= 9 && hour <= 12
  const failing = claimed.filter(
    ({ endpointId }, index) => isDown && endpointId === endpoints.Warehouse && index % 4 > 0,
  )
  const good = claimed.filter((delivery) => !failing.includes(delivery))
  for (const [index, delivery] of good.entries()) {
    const durationMs = 40 + ((index * 37) % 180)
    await record(store, [delivery], 'delivered', {
      durationMs,
      startedAgoMs: endedAgoMs + durationMs,
      endedAgoMs,
    })
  }
  await record(store, failing, 'failed', {
    status: 503,
    reason: 'http_503',
    startedAgoMs: endedAgoMs + 30,
    endedAgoMs,
  })
}
const browser = await launch()
for (const colorScheme of ['light', 'dark'] as const) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 860 } })
  await page.goto(`${host.base}/`)
  await page.screenshot({ path: join(DIRECTORY, `${colorScheme}.png`) })
}
await browser.close()
await host.close()
