import { createPostgresStore } from '../../../dist/postgres.js'
import { createDeliveryLoop, createWebhookSender } from '../../../dist/webhooks.js'
import { serveParent } from './delivering.ts'

// The delivery loop as it is published, with the default options: the log of attempts and fairness on.

const store = createPostgresStore(process.argv[2] ?? '')
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
const loop = createDeliveryLoop(store, sender)

serveParent({
  async publish() {
    throw new Error('Events of the library are published by a statement')
  },
  async deliver() {
    loop.start()
  },
})
