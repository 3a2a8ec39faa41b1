import type { IncomingMessage } from 'node:http'
import { fromFetch, isFetchRequest } from '../http/fetch.ts'
import type { ApiRequest } from '../http/message.ts'
import { fromNode } from '../http/node.ts'
import { Refusal } from '../http/refusal.ts'
import {
  endedEarly,
  type ReceivedWebhook,
  type ReceiveWebhookOptions,
  readReception,
  tooLarge,
  toReceived,
} from '../webhooks/received-webhook.ts'
import { verifyWebhook } from '../webhooks/signature.ts'

/**
 * Receives a webhook as a subscriber (see section 6 of the spec). Reads the raw body, verifies the signature and
 * returns the event. Respond with a 2xx within 10 seconds, then process the event. Any other response causes a retry.
 *
 * @typeParam Own the service's own event types and their data, for example `EventsOf<typeof service>`
 * @param request a request from node:http or Express, or a fetch `Request`. If a body parser has already read the body,
 *   the bytes must have been kept (`express.raw({ type: '*\/*' })` or `req.rawBody`), because re-serialized JSON
 *   doesn't match the signature
 * @throws `WebhookError` with the `status` to respond with, or `TypeError` or `RangeError` for invalid
 *   options or bodies
 *
 * @example
 * ```ts
 * const { event } = await receiveWebhook(request, { secret })
 * if (event.type === 'invoice.paid') console.log(event.data.number)
 * ```
 */
export async function receiveWebhook<Own extends object = object>(
  request: IncomingMessage | Request,
  options: ReceiveWebhookOptions,
): Promise<ReceivedWebhook<Own>> {
  // A consumed body counts as parsed, because the bytes that were signed are gone.
  const message = isFetchRequest(request) ? fromFetch(request, { body: null }) : fromNode(request, '')
  const { signatureHeader, maxBodyBytes, verifying } = readReception(message.method, options)
  const body = await readRawBody(message, maxBodyBytes)
  const { timestamp } = verifyWebhook(body, message.header(signatureHeader), options.secret, verifying)
  return toReceived(body, timestamp, options)
}

async function readRawBody(message: ApiRequest, maxBytes: number): Promise<Uint8Array> {
  const body = await message.body(maxBytes).catch((error) => {
    throw toWebhookError(error, maxBytes)
  })
  if (body.kind === 'parsed') {
    throw new TypeError(
      'Cannot verify the webhook because a body parser has read its body: receive webhooks before the parser, ' +
        "or keep the bytes with express.raw({ type: '*/*' })",
    )
  }
  // The limit hasn't been applied to bytes that the host kept.
  if (body.bytes.byteLength > maxBytes) throw tooLarge(maxBytes)
  return body.bytes
}

function toWebhookError(error: unknown, maxBytes: number): unknown {
  if (!(error instanceof Refusal)) return error
  return error.status === 413 ? tooLarge(maxBytes) : endedEarly()
}
