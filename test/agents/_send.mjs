import { createWebhookSender } from 'business-api-kit/webhooks'
import { request } from 'undici'

// Sends a request as a host does, and then a webhook.
const [url = ''] = process.argv.slice(2)
const { body } = await request(`${url}/host`, { method: 'POST', body: '{}' })
await body.dump()

const sender = createWebhookSender({ allowPrivateNetworks: true, allowHttp: true })
const { status } = await sender.send({ url: `${url}/webhook`, headers: { 'X-Own': 'a' }, body: '{}' })
process.exit(status === 200 ? 0 : 1)
