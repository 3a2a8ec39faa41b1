import { type Names, readHeaderPrefix, readWhole, rejectUnknown } from '../base/options.ts'
import type { Event } from '../resources/event-catalogue.ts'
import { VERIFY_NAMES, type VerifyWebhookOptions } from './signature-header.ts'
import { WEBHOOK_MALFORMED, WEBHOOK_METHOD, WEBHOOK_TOO_LARGE, WebhookError } from './webhook-error.ts'

// The parts of receiving a webhook that the receiver for Node and the receiver for fetch share. Nothing of Node is loaded or used here.

/** Options of `receiveWebhook`. */
export interface ReceiveWebhookOptions extends VerifyWebhookOptions {
  /** The signing secret of the endpoint, taken literally, `whsec_` included; during a rotation both secrets. */
  secret: string | readonly string[]
  /**
   * Looks up an event id in a table of the subscriber: true if the event was received before. Every attempt of a delivery
   * carries the same event id, and an attempt with a lost response is repeated. Default: every event is new.
   */
  isSeen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** Bytes of a body at most. Default 1,048,576: four times the largest event. */
  maxBodyBytes?: number | undefined
  /** The beginning of the headers' names. Default `X-SERVICE`, as in `X-SERVICE-Signature`. */
  headerPrefix?: string | undefined
}

/** A webhook with a right signature. @typeParam Own the types beside the catalogue with their data: see {@link Event} */
export interface ReceivedWebhook<Own extends object = object> {
  /** `switch (event.type)` knows the data of each type. */
  readonly event: Event<Own>
  /** True if `isSeen` knew the event: respond with 2xx and do nothing. */
  readonly isRepeat: boolean
  /** The time of the attempt, in Unix seconds. */
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
 * Checks the options and the method of a request.
 *
 * @returns the name of the signature header in lower case, the bytes of a body at most, and the options of the verification
 * @throws `RangeError` or `TypeError` for an option; `WebhookError` for another method than POST
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

/** Builds the error of a body over the limit. */
export function tooLarge(maxBytes: number): WebhookError {
  return new WebhookError(WEBHOOK_TOO_LARGE, `the body is larger than ${maxBytes} bytes`, 413)
}

/** Builds the error of a body that ended early. */
export function endedEarly(): WebhookError {
  return new WebhookError(WEBHOOK_MALFORMED, 'the body ended early')
}

/** Reads the event of a verified body, and asks the subscriber for a repeat. @throws `WebhookError` for no event */
export async function toReceived<Own extends object>(
  body: Uint8Array,
  timestamp: number,
  { isSeen }: ReceiveWebhookOptions,
): Promise<ReceivedWebhook<Own>> {
  const event = parseEvent<Own>(body)
  return { event, timestamp, isRepeat: (await isSeen?.(event.id)) ?? false }
}

/** A signed body that is not an event comes from another service with the same secret. */
function parseEvent<Own extends object>(body: Uint8Array): Event<Own> {
  try {
    const event: Event<Own> | null = JSON.parse(new TextDecoder('utf-8', { ignoreBOM: true }).decode(body))
    if (typeof event?.id === 'string' && typeof event.type === 'string') return event
  } catch {
    // Rejected below, like any body that is not an event.
  }
  throw new WebhookError(WEBHOOK_MALFORMED, 'the body is not an event')
}
