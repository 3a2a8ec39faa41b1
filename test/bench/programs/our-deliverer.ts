import { SECRET_KEYS, serveParent } from './delivering.ts'

// The delivery loop as it is published, with the default options: the log of attempts and fairness on. Another checkout's `dist`
// may be given, and shards as JSON in the place of a connection string: {"a":"postgres://…"}.

const [url = '', dist = new URL('../../../dist', import.meta.url).href] = process.argv.slice(2)
const { createPostgresStore }: typeof import('../../../dist/postgres.js') = await import(
  `${dist}/postgres.js`
)
const {
  createDeliveryLoop,
  createDeliverySlots,
  createWebhookSender,
}: typeof import('../../../dist/webhooks.js') = await import(`${dist}/webhooks.js`)

const urls = url.startsWith('{') ? Object.values<string>(JSON.parse(url)) : [url]
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
// An earlier checkout has no slots to share.
const slots = urls.length > 1 ? { concurrency: createDeliverySlots() } : {}
const options = { secretKeys: SECRET_KEYS, ...slots }
const loops = urls.map((each) => createDeliveryLoop(createPostgresStore(each), sender, options))

serveParent({
  async publish() {
    throw new Error('Events of the library are not published here')
  },
  async deliver() {
    for (const loop of loops) loop.start()
  },
})
