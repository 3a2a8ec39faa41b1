// A subscriber on plain node:http. It verifies each webhook, responds immediately, does its work after that, and
// doesn't do anything twice. SIGNING_SECRET is the secret shown when the endpoint was registered. During a rotation,
// pass both secrets separated by a comma.
//
//   SIGNING_SECRET=whsec_… PORT=4000 npx tsx examples/receive-webhook.ts

import { createServer, type IncomingMessage } from 'node:http'
import type { Event } from 'business-api-kit'
import { receiveWebhook, WebhookError } from 'business-api-kit/webhooks'

const { SIGNING_SECRET = '', PORT = '4000' } = process.env
const secrets = SIGNING_SECRET.split(',').flatMap((secret) => secret.trim() || [])
if (secrets.length === 0) {
  console.error("Set SIGNING_SECRET to the endpoint's signing secret")
  process.exit(2)
}

/** Retries arrive within minutes, but an administrator might send a delivery again much later. */
const IDS_KEPT = 100_000

// If you have a database, write the event there under its id before responding. Then no event is lost or handled twice,
// no matter when the process ends.
const seen = new Set<string>()

const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    (error) => {
      console.error('Cannot receive a webhook:', error)
      response.writeHead(500).end()
    },
  )
})
server.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => server.close())

/** Returns the status for the response. The webhook is sent again if that isn't 2xx or takes 10 seconds. */
async function receive(request: IncomingMessage): Promise<number> {
  try {
    const { event, isRepeat } = await receiveWebhook(request, {
      secret: secrets,
      isSeen: (id) => seen.has(id),
    })
    if (!isRepeat) take(event)
    return 204
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error
    console.error(`Refused a webhook: ${error.code}`)
    return error.status
  }
}

/** All attempts of a delivery have the same event id. */
function take(event: Event): void {
  const [oldest] = seen
  if (oldest !== undefined && seen.size >= IDS_KEPT) seen.delete(oldest)
  seen.add(event.id)
  setImmediate(work, event)
}

/** Handles an event after responding. TypeScript knows the type of its data from the event's type. */
function work(event: Event): void {
  const about = event.type === 'invoice.paid' ? ` number ${event.data.number}` : ''
  console.log(`${event.createdAt} ${event.type} ${event.id}${about}`)
}
