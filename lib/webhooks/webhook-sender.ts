import type { DestinationVerdict } from './destination.ts'

/** A POST to a subscriber, complete and signed. */
export interface WebhookRequest {
  /** The URL as registered by the organization. */
  readonly url: string
  /** Content-Type, event id, event type and signature (specification, section 6), and the endpoint's own. */
  readonly headers: Readonly<Record<string, string>>
  /** The event's envelope, to be sent byte for byte, because the signature covers these bytes. */
  readonly body: string
}

/** The result of an attempt. */
export interface WebhookAnswer {
  /** The HTTP status; null when the head of no response arrived. */
  readonly status: number | null
  /** Why there was no response: `timeout`, `connection_refused`, `destination_not_allowed` …; null with a status. */
  readonly error: string | null
  /**
   * False when nothing was sent because the sender is closed or not complete, without a fault of the subscriber: no
   * attempt is counted then. Default true.
   */
  readonly wasMade?: boolean
  /** The part of a failure that only the operator may know, such as the rejected address; never kept in the log. */
  readonly detail?: string | null
  /** The first 4 KiB of the response body, for the delivery log. */
  readonly bodyExcerpt: string
  /** The `Location` of a redirect, as it was sent; null or absent without the header. The log keeps a part of it. */
  readonly location?: string | null
  /** The response's headers. The log keeps some of them, by name. */
  readonly headers?: Readonly<Record<string, string>>
  /** Milliseconds to wait by the response's `Retry-After`; null or absent without the header. */
  readonly retryAfterMs?: number | null
  /** The whole attempt in milliseconds, from the name lookup to the last byte read. */
  readonly durationMs: number
  /** The parts of the duration; absent when the sender does not measure them. */
  readonly timings?: AttemptTimings
}

/**
 * The parts of an attempt's duration in milliseconds; null for a part that did not happen, such as `connectMs` on an
 * open connection, or was not measured.
 */
export interface AttemptTimings {
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the request's first byte sent to the response's first byte. */
  readonly firstByteMs: number | null
}

/**
 * Sends webhooks. A sender makes one attempt and reports the result: no retry, no redirect followed, at most 10 seconds in all,
 * and no error thrown for a fault of the subscriber or the network.
 */
export interface WebhookSender {
  /**
   * Prepares the sender. A delivery loop calls `prepare` before a claim, and claims nothing while `prepare` fails: an
   * incomplete sender should be found when a host starts, not with every attempt.
   *
   * @throws Error naming the missing part, the reason, and the remedy
   */
  prepare?(): Promise<void>
  /**
   * Judges a destination as every attempt will. The developer settings call `judge` when an endpoint is registered,
   * unless the settings have rules of their own.
   */
  judge?(url: string): Promise<DestinationVerdict>
  /** @param signal ends the attempt at once, with the error `interrupted` */
  send(request: WebhookRequest, signal?: AbortSignal): Promise<WebhookAnswer>
  /**
   * Closes the connections. Resolves when all are closed, after the attempts in flight.
   *
   * @param options.timeoutMs how long attempts in flight may take, in milliseconds; attempts left then are interrupted
   */
  close(options?: { timeoutMs?: number | undefined }): Promise<void>
}
