import type { DestinationVerdict } from './destination.ts'

/** A POST request to a subscriber, including its signature. */
export interface WebhookRequest {
  /** The URL as registered by the organization. */
  readonly url: string
  /** Content-Type, event id, event type, signature (specification, section 6) and the endpoint's custom headers. */
  readonly headers: Readonly<Record<string, string>>
  /** The event's envelope. It must be sent unmodified because it's signed. */
  readonly body: string
}

/** The result of an attempt. */
export interface WebhookAnswer {
  /** The HTTP status, or `null` if no response head was received. */
  readonly status: number | null
  /** Why there was no response, such as `timeout` or `destination_not_allowed`. `null` if there is a status. */
  readonly error: string | null
  /**
   * `false` if nothing was sent because the sender is closed or incomplete, which isn't the subscriber's fault. The
   * attempt then doesn't count. Defaults to `true`.
   */
  readonly wasMade?: boolean
  /** Details that only the operator may see, such as the rejected address. Never stored in the log. */
  readonly detail?: string | null
  /** The first 4 KiB of the response body, for the delivery log. */
  readonly bodyExcerpt: string
  /** The `Location` header of a redirect as received, if any. Only part of it is stored in the log. */
  readonly location?: string | null
  /** The response headers. Only some of them are logged. */
  readonly headers?: Readonly<Record<string, string>>
  /** How long to wait according to the `Retry-After` header, in milliseconds, or `null` or absent if there was none. */
  readonly retryAfterMs?: number | null
  /** Total duration in milliseconds, from the DNS lookup to the last byte read. */
  readonly durationMs: number
  /** The duration of each phase. Absent if the sender doesn't measure them. */
  readonly timings?: AttemptTimings
}

/** The phases of an attempt in ms. `null` if skipped (`connectMs` on an open connection) or not measured. */
export interface AttemptTimings {
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the first byte of the request to the first byte of the response. */
  readonly firstByteMs: number | null
}

/**
 * Sends webhooks. A sender makes a single attempt and reports the result. It must not retry or follow redirects, must
 * finish within 10 seconds, and must not throw if the subscriber or the network is at fault.
 */
export interface WebhookSender {
  /**
   * Prepares the sender. Delivery loops call this before a claim and claim nothing while it fails. That way a
   * misconfigured sender is noticed when the host starts instead of at every attempt.
   *
   * @throws Error that says what is missing, why, and how to fix it
   */
  prepare?(): Promise<void>
  /**
   * Checks a destination in the same way as every attempt does. The developer settings call this when an endpoint is
   * registered, unless they have their own rules.
   */
  judge?(url: string): Promise<DestinationVerdict>
  /** @param signal ends the attempt immediately with the error `interrupted` */
  send(request: WebhookRequest, signal?: AbortSignal): Promise<WebhookAnswer>
  /**
   * Closes all connections and waits for attempts in flight. Resolves when everything is closed.
   *
   * @param options.timeoutMs how long to wait for attempts in flight before interrupting them, in milliseconds
   */
  close(options?: { timeoutMs?: number | undefined }): Promise<void>
}
