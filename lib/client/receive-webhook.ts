import { readHaving } from '../base/options.ts'
import {
  endedEarly,
  type ReceivedWebhook,
  type ReceiveWebhookOptions,
  readReception,
  tooLarge,
  toReceived,
} from '../webhooks/received-webhook.ts'
import { readBytes } from './read-bytes.ts'
import { verifyWebhook } from './verify-webhook.ts'

/**
 * Receives a webhook as a subscriber (see section 6 of the spec) in any runtime that has fetch and Web Crypto. Reads
 * the raw body, verifies the signature and returns the event. Respond with a 2xx within 10 seconds, then process the
 * event. Any other response causes a retry.
 *
 * @typeParam Own the service's own event types and their data, for example `{ 'booking.created': Booking }`
 * @param request the body must not have been read yet
 * @throws `WebhookError` with the `status` to respond with, or `TypeError` or `RangeError` for invalid options
 *
 * @example
 * ```ts
 * import { receiveWebhook } from 'business-api-kit/client'
 *
 * export async function POST(request: Request): Promise<Response> {
 *   const { event } = await receiveWebhook(request, { secret })
 *   console.log(event.type)
 *   return new Response(null, { status: 204 })
 * }
 * ```
 */
export async function receiveWebhook<Own extends object = object>(
  request: Request,
  options: ReceiveWebhookOptions,
): Promise<ReceivedWebhook<Own>> {
  readHaving('The request', request, 'headers.get', 'a fetch Request')
  const { signatureHeader, maxBodyBytes, verifying } = readReception(request.method, options)
  const body = await readBody(request, maxBodyBytes)
  const { timestamp } = await verifyWebhook(
    body,
    request.headers.get(signatureHeader),
    options.secret,
    verifying,
  )
  return toReceived(body, timestamp, options)
}

async function readBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.bodyUsed || request.body?.locked) {
    throw new TypeError(
      'Cannot verify the webhook because its body was read: receive webhooks before any parser',
    )
  }
  const bytes = await readBytes(request, maxBytes).catch(() => {
    throw endedEarly()
  })
  if (bytes === null) throw tooLarge(maxBytes)
  return bytes
}
