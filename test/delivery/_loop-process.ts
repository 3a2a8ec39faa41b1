// Runs a loop in a process and stops it from a timer that doesn't keep the process alive. If the loop didn't keep it
// alive, the process would exit without any output. With `once`, runs the loop once instead.

import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import { newEntry } from '../_audit.ts'

const before = new Set(process.eventNames())
const store = createMemoryStore()
const sender = {
  send: async () => ({ status: 500, error: null, bodyExcerpt: '', durationMs: 1 }),
  async close() {},
}
// The timer for the second attempt is set before the first attempt's minute is over.
const loop = createDeliveryLoop(store, sender, { pollIntervalMs: 60_000, retryDelaysMs: [60_000] })
await store.endpoints.insert({
  organizationId: 'org_1',
  limit: 1000,
  endpoint: {
    id: 'we_1',
    url: 'https://subscriber.test/',
    ...ENDPOINT_DEFAULTS,
    headerNames: [],
    sealedHeaders: null,
    createdAt: new Date().toISOString(),
    sealedSecret: 'plain.whsec_test',
  },
  entry: newEntry(),
})
await store.events.publish('org_1', { id: 'evt_1', type: 'project.completed', body: '{}' })

if (process.argv[2] === 'once') {
  const { retried } = await loop.runOnce()
  if (retried === 1) console.log('ran once')
} else {
  loop.start()
  setTimeout(stop, 300).unref()
}

async function stop(): Promise<void> {
  console.log('alive')
  const added = process.eventNames().filter((name) => !before.has(name))
  console.log(`listeners: ${added.join(', ') || 'none'}`)
  await loop.stop()
  console.log('stopped')
}
