// A delivery loop in a separate process, as in a host. Reports the start, and on request the stalls of the event loop; ends with
// the parent process.
//
//   node --import tsx deliverer.ts postgres://…

import { createPostgresStore } from '../../../lib/postgres.ts'
import { createDeliveryLoop, createWebhookSender } from '../../../lib/webhooks.ts'
import { SECRET_KEYS } from '../programs/delivering.ts'
import { watchStalls } from './stalls.ts'

const store = createPostgresStore(process.argv[2] ?? '')
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
// Endpoints that fail are part of some benchmarks.
const loop = createDeliveryLoop(store, sender, { secretKeys: SECRET_KEYS, logger: false })
loop.start()

let readStalls: ReturnType<typeof watchStalls> | undefined
process.on('message', () => {
  readStalls ??= watchStalls()
  process.send?.(readStalls())
})
process.on('disconnect', async () => {
  await loop.stop({ timeoutMs: 0 })
  process.exit()
})
process.send?.('running')
