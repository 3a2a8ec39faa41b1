// A delivery loop in a process of its own, as a host would run it. Says when it runs, and ends with its parent.
//
//   node --import tsx deliverer.ts postgres://…

import { createPostgresStore } from '../../../lib/postgres.ts'
import { createDeliveryLoop, createWebhookSender } from '../../../lib/webhooks.ts'

const store = createPostgresStore(process.argv[2] ?? '')
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
const loop = createDeliveryLoop(store, sender)
loop.start()

process.on('disconnect', async () => {
  await loop.stop({ timeoutMs: 0 })
  process.exit()
})
process.send?.('running')
