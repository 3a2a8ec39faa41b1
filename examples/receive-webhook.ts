// A subscriber on plain node:http: verifies each webhook, answers at once, works afterwards, and does nothing twice.
// SIGNING_SECRET is the secret shown when the endpoint was registered; during a rotation give both secrets, separated
// by a comma.
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

/** A retry comes within minutes, a delivery that an administrator has sent again perhaps much later. */
const IDS_KEPT = 100_000

// A subscriber with a database writes the event there, under the event's id, before the answer: then no event is lost
// or handled twice, whenever the process ends.
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

/** The status to answer. Anything but 2xx, and an answer that takes 10 seconds, has the webhook sent again. */
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

/** Every attempt of a delivery carries the same event id. */
function take(event: Event): void {
  const [oldest] = seen
  if (oldest !== undefined && seen.size >= IDS_KEPT) seen.delete(oldest)
  seen.add(event.id)
  setImmediate(work, event)
}

/** Handles an event after the answer was sent. The event's type determines the type of its data. */
function work(event: Event): void {
  const about = event.type === 'invoice.paid' ? ` number ${event.data.number}` : ''
  console.log(`${event.createdAt} ${event.type} ${event.id}${about}`)
}
