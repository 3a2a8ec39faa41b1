import type { DestinationVerdict } from './destination.ts'

/** One POST to a subscriber, complete and signed. */
export interface WebhookRequest {
  /** Where to: as registered by the organization. */
  readonly url: string
  /** Content-Type, event id, event type and signature (specification, section 6), and the endpoint's own. */
  readonly headers: Readonly<Record<string, string>>
  /** The event's envelope, to be sent byte for byte: the signature covers it. */
  readonly body: string
}

/** What became of one attempt. */
export interface WebhookAnswer {
  /** The HTTP status; null when no complete answer came. */
  readonly status: number | null
  /** Why no answer came: `timeout`, `connection_refused`, `destination_not_allowed` …; null with a status. */
  readonly error: string | null
  /**
   * False when nothing was sent through no fault of the subscriber's, as the sender is closed or not complete: no attempt
   * is counted then. Default true.
   */
  readonly wasMade?: boolean
  /** What only the operator may know of a failure, the address refused for instance; never kept in the log. */
  readonly detail?: string | null
  /** At most the first 4 KiB of the answer's body, for the delivery log. */
  readonly bodyExcerpt: string
  /** Milliseconds that the answer's `Retry-After` asks to wait; null or absent when it asks for nothing. */
  readonly retryAfterMs?: number | null
  /** The whole attempt in milliseconds, from the name look-up to the last byte read. */
  readonly durationMs: number
  /** Where the time went; absent when the sender does not measure it. */
  readonly timings?: AttemptTimings
}

/** The parts of an attempt's duration in milliseconds; null for what did not happen, as on a connection that was open. */
export interface AttemptTimings {
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the request's first byte sent to the answer's first byte. */
  readonly firstByteMs: number | null
}

/**
 * Sends one webhook. A sender makes one attempt and tells what happened: it never retries, follows no redirect, takes
 * at most 10 seconds in all, and never throws for anything the subscriber or the network does.
 */
export interface WebhookSender {
  /**
   * Readies what attempts need. A delivery loop calls it before it claims, and claims nothing while it fails: a sender
   * that is not complete should be found when a host starts, not with every attempt.
   *
   * @throws Error saying what is missing, why, and what to do
   */
  prepare?(): Promise<void>
  /**
   * Judges a destination as every attempt will. The developer settings ask it when an endpoint is registered, unless they
   * have rules of their own.
   */
  judge?(url: string): Promise<DestinationVerdict>
  /** @param signal ends the attempt at once, with the error `interrupted` */
  send(request: WebhookRequest, signal?: AbortSignal): Promise<WebhookAnswer>
  /** Releases the connections that are kept open. Resolves when none is left. */
  close(): Promise<void>
}
