import { readFunction, readHeaderPrefix, readWhole, rejectUnknown } from '../base/options.ts'
import type { Event } from '../resources/event-catalogue.ts'
import { VERIFY_NAMES, type VerifyWebhookOptions } from './signature-header.ts'
import { WEBHOOK_MALFORMED, WEBHOOK_METHOD, WEBHOOK_TOO_LARGE, WebhookError } from './webhook-error.ts'

// Shared by the Node and fetch webhook receivers, so this file must not import anything from Node.

/** Options for `receiveWebhook`. */
export interface ReceiveWebhookOptions extends VerifyWebhookOptions {
  /** The endpoint's signing secret, including the `whsec_` prefix. During a rotation, pass both secrets. */
  secret: string | readonly string[]
  /**
   * Returns `true` if you've already received the event id, for example by looking it up in a table. Attempts are
   * retried with the same event id if your response gets lost. By default, every event is treated as new.
   */
  isSeen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** Maximum body size in bytes. Defaults to 1,048,576, which is four times the maximum event size. */
  maxBodyBytes?: number | undefined
  /** The header name prefix. Defaults to `X-SERVICE`, as in `X-SERVICE-Signature`. */
  headerPrefix?: string | undefined
}

/**
 * A webhook with a valid signature.
 *
 * @typeParam Own your own event types and their data, see {@link Event}
 */
export interface ReceivedWebhook<Own extends object = object> {
  /** The event. Use `switch (event.type)` to narrow the type of its data. */
  readonly event: Event<Own>
  /** `true` if `isSeen` returned `true` for the event. Just respond with 2xx. */
  readonly isRepeat: boolean
  /** When the attempt was made, in Unix seconds. */
  readonly timestamp: number
}

const MAX_BODY_BYTES = 1024 * 1024

/**
 * Validates the options and the request method.
 *
 * @returns the signature header's name in lower case, the body size limit and the verification options
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
  rejectUnknown(options, {
    ...VERIFY_NAMES,
    secret: true,
    isSeen: true,
    maxBodyBytes: true,
    headerPrefix: true,
  })
  const maxBodyBytes = readWhole('maxBodyBytes', options.maxBodyBytes, MAX_BODY_BYTES)
  readFunction('isSeen', options.isSeen)
  const signatureHeader = `${readHeaderPrefix(options.headerPrefix)}-signature`.toLowerCase()
  if (method !== 'POST') throw new WebhookError(WEBHOOK_METHOD, 'the method is not POST', 405)
  const { toleranceSeconds, clock } = options
  return { signatureHeader, maxBodyBytes, verifying: { toleranceSeconds, clock } }
}

/** Creates the error for a body that is too large. */
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

/** A signed body that isn't an event comes from another service that uses the same secret. */
function parseEvent<Own extends object>(body: Uint8Array): Event<Own> {
  try {
    const event: Event<Own> | null = JSON.parse(new TextDecoder('utf-8', { ignoreBOM: true }).decode(body))
    if (typeof event?.id === 'string' && typeof event.type === 'string') return event
  } catch {
    // Handled below
  }
  throw new WebhookError(WEBHOOK_MALFORMED, 'the body is not an event')
}
