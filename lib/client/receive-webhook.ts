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
 * Receives a webhook on the subscriber's side (specification, section 6) in every runtime with fetch and Web Crypto: reads the raw
 * body, verifies the signature and gives the event. Answer 2xx within 10 seconds and work afterwards; any other answer has
 * the webhook sent again.
 *
 * @typeParam Own the service's own types with their data: `{ 'booking.created': Booking }`
 * @param request whose body has not been read
 * @throws `WebhookError` with the `status` to answer; `TypeError` or `RangeError` for options or a body that could not
 *   verify any webhook
 */
export async function receiveWebhook<Own extends object = object>(
  request: Request,
  options: ReceiveWebhookOptions,
): Promise<ReceivedWebhook<Own>> {
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
