import { type Names, readHeaderPrefix, readWhole, rejectUnknown } from '../base/options.ts'
import type { Event } from '../resources/event-catalogue.ts'
import { VERIFY_NAMES, type VerifyWebhookOptions } from './signature-header.ts'
import { WEBHOOK_MALFORMED, WEBHOOK_METHOD, WEBHOOK_TOO_LARGE, WebhookError } from './webhook-error.ts'

// Code shared by the webhook receivers for Node and fetch. Must not import anything from Node.

/** Options of `receiveWebhook`. */
export interface ReceiveWebhookOptions extends VerifyWebhookOptions {
  /** The endpoint's signing secret, including the `whsec_` prefix. Pass both secrets during a rotation. */
  secret: string | readonly string[]
  /**
   * Returns `true` if you have received this event id before, for example by looking it up in a table. An attempt is
   * repeated with the same event id if its response gets lost. By default every event is considered new.
   */
  isSeen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** Maximum size of the body in bytes. Defaults to 1,048,576, four times the size of the largest event. */
  maxBodyBytes?: number | undefined
  /** The prefix of the header names. Defaults to `X-SERVICE`, as in `X-SERVICE-Signature`. */
  headerPrefix?: string | undefined
}

/**
 * A webhook with a valid signature.
 *
 * @typeParam Own your own event types and their data, see {@link Event}
 */
export interface ReceivedWebhook<Own extends object = object> {
  /** The event. You can use `switch (event.type)` to narrow the type of its data. */
  readonly event: Event<Own>
  /** `true` if `isSeen` knew the event. Respond with 2xx and do nothing. */
  readonly isRepeat: boolean
  /** When the attempt was made, as Unix time in seconds. */
  readonly timestamp: number
}

const MAX_BODY_BYTES = 1024 * 1024
const NAMES: Names<ReceiveWebhookOptions> = {
  ...VERIFY_NAMES,
  secret: true,
  isSeen: true,
  maxBodyBytes: true,
  headerPrefix: true,
}

/**
 * Checks the options and the request method.
 *
 * @returns the lowercase name of the signature header, the maximum size of the body, and the options for verification
 * @throws `RangeError` or `TypeError` for invalid options, `WebhookError` if the method isn't POST
 */
export function readReception(
  method: string,
  options: ReceiveWebhookOptions,
): {
  readonly signatureHeader: string
  readonly maxBodyBytes: number
  readonly verifying: VerifyWebhookOptions
} {
  rejectUnknown(options, NAMES)
  const maxBodyBytes = readWhole('maxBodyBytes', options.maxBodyBytes, MAX_BODY_BYTES)
  const signatureHeader = `${readHeaderPrefix(options.headerPrefix)}-signature`.toLowerCase()
  if (method !== 'POST') throw new WebhookError(WEBHOOK_METHOD, 'the method is not POST', 405)
  const { toleranceSeconds, clock } = options
  return { signatureHeader, maxBodyBytes, verifying: { toleranceSeconds, clock } }
}

/** Creates the error for a body that exceeds the limit. */
export function tooLarge(maxBytes: number): WebhookError {
  return new WebhookError(WEBHOOK_TOO_LARGE, `the body is larger than ${maxBytes} bytes`, 413)
}

/** Creates the error for a body that ended early. */
export function endedEarly(): WebhookError {
  return new WebhookError(WEBHOOK_MALFORMED, 'the body ended early')
}

/** Parses the event from a verified body and checks if it's a repeat. @throws `WebhookError` if it's not an event */
export async function toReceived<Own extends object>(
  body: Uint8Array,
  timestamp: number,
  { isSeen }: ReceiveWebhookOptions,
): Promise<ReceivedWebhook<Own>> {
  const event = parseEvent<Own>(body)
  return { event, timestamp, isRepeat: (await isSeen?.(event.id)) ?? false }
}

/** If the body is signed but isn't an event, it was sent by another service that uses the same secret. */
function parseEvent<Own extends object>(body: Uint8Array): Event<Own> {
  try {
    const event: Event<Own> | null = JSON.parse(new TextDecoder('utf-8', { ignoreBOM: true }).decode(body))
    if (typeof event?.id === 'string' && typeof event.type === 'string') return event
  } catch {
    // Handled below.
  }
  throw new WebhookError(WEBHOOK_MALFORMED, 'the body is not an event')
}
