import { serveParent } from './delivering.ts'

// The delivery loop as it is published, with the default options: the log of attempts and fairness on. Another checkout's `dist`
// may be given.

const [url = '', dist = new URL('../../../dist', import.meta.url).href] = process.argv.slice(2)
const { createPostgresStore }: typeof import('../../../dist/postgres.js') = await import(
  `${dist}/postgres.js`
)
const { createDeliveryLoop, createWebhookSender }: typeof import('../../../dist/webhooks.js') = await import(
  `${dist}/webhooks.js`
)

const store = createPostgresStore(url)
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
const loop = createDeliveryLoop(store, sender)

serveParent({
  async publish() {
    throw new Error('Events of the library are not published here')
  },
  async deliver() {
    loop.start()
  },
})
