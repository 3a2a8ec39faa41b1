import type { IncomingMessage } from 'node:http'
import { readHeaderPrefix, readWhole } from '../base/options.ts'
import { fromFetch, isFetchRequest } from '../http/fetch.ts'
import type { ApiRequest } from '../http/message.ts'
import { fromNode } from '../http/node.ts'
import { Refusal } from '../http/refusal.ts'
import type { Event } from '../resources/event-catalogue.ts'
import {
  type VerifyWebhookOptions,
  verifyWebhook,
  WEBHOOK_MALFORMED,
  WEBHOOK_METHOD,
  WEBHOOK_TOO_LARGE,
  WebhookError,
} from '../webhooks/signature.ts'

/** Options of `receiveWebhook`. */
export interface ReceiveWebhookOptions extends VerifyWebhookOptions {
  /** The signing secret of the endpoint, taken literally, `whsec_` included; during a rotation both secrets. */
  secret: string | readonly string[]
  /**
   * Looks up an event id in a table of the subscriber: true if the event was received before. Every attempt of a delivery
   * carries the same event id, and an attempt with a lost answer is repeated. Default: every event is new.
   */
  isSeen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** Bytes of a body at most. Default 1,048,576: four times the largest event. */
  maxBodyBytes?: number | undefined
  /** The beginning of the names of the headers. Default `X-SERVICE`, as in `X-SERVICE-Signature`. */
  headerPrefix?: string | undefined
}

/** A webhook with a right signature. */
export interface ReceivedWebhook {
  /** `switch (event.type)` knows the data of each type. */
  readonly event: Event
  /** True if `isSeen` knew the event: answer 2xx and do nothing. */
  readonly isRepeat: boolean
  /** The time of the attempt, in Unix seconds. */
  readonly timestamp: number
}

const MAX_BODY_BYTES = 1024 * 1024

/**
 * Receives a webhook on the subscriber's side (specification, section 6): reads the raw body, verifies the signature and
 * gives the event. Answer 2xx within 10 seconds and work afterwards; any other answer has the webhook sent again.
 *
 * @param request of node:http or Express, or a fetch `Request`. A body parser must not have read the body, unless it has
 *   kept the bytes (`express.raw({ type: '*\/*' })`, or `req.rawBody`): a body that was parsed and written again has
 *   another signature
 * @throws `WebhookError` with the `status` to answer; `TypeError` or `RangeError`
 *   for options or a body that could not verify any webhook
 */
export async function receiveWebhook(
  request: IncomingMessage | Request,
  options: ReceiveWebhookOptions,
): Promise<ReceivedWebhook> {
  const { secret, isSeen } = options
  const maxBodyBytes = readWhole('maxBodyBytes', options.maxBodyBytes, MAX_BODY_BYTES)
  const signatureHeader = `${readHeaderPrefix(options.headerPrefix)}-signature`.toLowerCase()
  const message = isFetchRequest(request) ? fromFetch(request) : fromNode(request, '')
  if (message.method !== 'POST') throw new WebhookError(WEBHOOK_METHOD, 'the method is not POST', 405)
  const body = await readRawBody(message, maxBodyBytes)
  const { timestamp } = verifyWebhook(body, message.header(signatureHeader), secret, options)
  const event = parseEvent(body)
  return { event, timestamp, isRepeat: (await isSeen?.(event.id)) ?? false }
}

async function readRawBody(message: ApiRequest, maxBytes: number): Promise<Uint8Array> {
  const body = await message.body(maxBytes).catch((error) => {
    throw error instanceof Refusal ? webhookErrorOf(error, maxBytes) : error
  })
  if (body.kind === 'parsed') {
    throw new TypeError(
      'Cannot verify the webhook because a body parser has read its body: receive webhooks before the parser, ' +
        "or keep the bytes with express.raw({ type: '*/*' })",
    )
  }
  return body.bytes
}

function webhookErrorOf({ status }: Refusal, maxBytes: number): WebhookError {
  return status === 413
    ? new WebhookError(WEBHOOK_TOO_LARGE, `the body is larger than ${maxBytes} bytes`, 413)
    : new WebhookError(WEBHOOK_MALFORMED, 'the body ended early')
}

/** A signed text that is no event comes from another service with the same secret. */
function parseEvent(body: Uint8Array): Event {
  try {
    const event: Event | null = JSON.parse(Buffer.from(body).toString())
    if (typeof event?.id === 'string' && typeof event.type === 'string') return event
  } catch {
    // Refused below, like any text that is not an event.
  }
  throw new WebhookError(WEBHOOK_MALFORMED, 'the body is not an event')
}
