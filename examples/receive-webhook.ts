// A subscriber on plain node:http: verifies each webhook, answers at once, works afterwards, and does nothing twice. The
// secret is the one that registering the endpoint has shown; during a rotation give both, separated by a comma.
//
//   SIGNING_SECRET=whsec_… PORT=4000 npx tsx examples/receive-webhook.ts

import { createServer, type IncomingMessage } from 'node:http'
import type { Event } from 'business-api'
import { verifyWebhook, WebhookSignatureError } from 'business-api/webhooks'

const { SIGNING_SECRET = '', PORT = '4000' } = process.env
const secrets = SIGNING_SECRET.split(',').flatMap((secret) => secret.trim() || [])
if (secrets.length === 0) {
  console.error("Set SIGNING_SECRET to the endpoint's signing secret")
  process.exit(2)
}

/** Larger than any event of the platform. */
const BODY_MAX_BYTES = 1024 * 1024
/** A retry comes within minutes, a delivery that an administrator has sent again perhaps much later. */
const IDS_KEPT = 100_000

// A subscriber with a database writes the event down there under its id before it answers: then nothing is lost and
// nothing is done twice, whenever the process ends.
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
  if (request.method !== 'POST') return 405
  const body = await readBody(request)
  if (body === null) return 413
  try {
    // The bytes as they came: a body that was parsed and written again has another signature.
    verifyWebhook(body, request.headers['x-service-signature'], secrets)
  } catch (error) {
    if (!(error instanceof WebhookSignatureError)) throw error
    console.error(`Refused a webhook: ${error.code}`)
    return 400
  }
  const event = parseEvent(body)
  if (event === null) return 400
  if (isFirst(event.id)) setImmediate(work, event)
  return 204
}

/** Null when it is too large. The connection lives on to say so; the rest is dropped as it comes. */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += chunk.length
    if (size > BODY_MAX_BYTES) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Null for what is signed and yet no event. */
function parseEvent(body: Buffer): Event | null {
  try {
    const event: Event | null = JSON.parse(body.toString())
    return typeof event?.id === 'string' ? event : null
  } catch {
    return null
  }
}

/** Every attempt of a delivery carries the same event id. */
function isFirst(id: string): boolean {
  if (seen.has(id)) return false
  const [oldest] = seen
  if (oldest !== undefined && seen.size >= IDS_KEPT) seen.delete(oldest)
  seen.add(id)
  return true
}

/** What the subscriber does with an event, when the answer is on its way. The type tells what the data is. */
function work(event: Event): void {
  const about = event.type === 'invoice.paid' ? ` number ${event.data.number}` : ''
  console.log(`${event.createdAt} ${event.type} ${event.id}${about}`)
}
