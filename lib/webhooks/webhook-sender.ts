import type { DestinationVerdict } from './destination.ts'

/** A signed POST request to a subscriber. */
export interface WebhookRequest {
  /** The URL that the organization registered. */
  readonly url: string
  /** Content-Type, event id, event type and signature (see section 6 of the spec), and the custom headers. */
  readonly headers: Readonly<Record<string, string>>
  /** The event's envelope. Must be sent unmodified because it's signed. */
  readonly body: string
}

/** The result of an attempt. */
export interface WebhookAnswer {
  /** The HTTP status, or `null` if we didn't receive a response head. */
  readonly status: number | null
  /** Why there was no response, such as `timeout` or `destination_not_allowed`. `null` if there is a status. */
  readonly error: string | null
  /**
   * `false` if nothing was sent because the sender is closed or incomplete. Since that isn't the subscriber's fault,
   * the attempt doesn't count. Defaults to `true`.
   */
  readonly wasMade?: boolean
  /** Details for operators only, such as the blocked address. Never stored in the log. */
  readonly detail?: string | null
  /** The first 4 KiB of the response body, for the delivery log. */
  readonly bodyExcerpt: string
  /** The `Location` header of a redirect, as received. Only part of it is logged. */
  readonly location?: string | null
  /** The response headers. Only some of them are logged. */
  readonly headers?: Readonly<Record<string, string>>
  /** The wait requested by the `Retry-After` header in milliseconds, or `null` if there was no such header. */
  readonly retryAfterMs?: number | null
  /** Total duration in milliseconds, from the DNS lookup to the last byte read. */
  readonly durationMs: number
  /** Duration of each phase, if the sender measures them. */
  readonly timings?: AttemptTimings
}

/** Phases of an attempt, in milliseconds. `null` if skipped (`connectMs` on a reused connection) or not measured. */
export interface AttemptTimings {
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the first byte sent to the first byte received. */
  readonly firstByteMs: number | null
}

/**
 * Sends webhooks. A sender makes a single attempt and reports its result. It must not retry or follow redirects, must
 * finish within 10 seconds, and must not throw because of the subscriber or the network.
 */
export interface WebhookSender {
  /**
   * Prepares the sender. Delivery loops call this before each claim, and don't claim anything while it fails. That way
   * you notice a misconfigured sender at startup rather than on every attempt.
   *
   * @throws `Error` that says what is missing, why, and how to fix it
   */
  prepare?(): Promise<void>
  /**
   * Checks a destination the same way attempts do. The developer settings call this when an endpoint is registered,
   * unless they have their own rules.
   */
  judge?(url: string): Promise<DestinationVerdict>
  /** @param signal ends the attempt immediately with the error `interrupted` */
  send(request: WebhookRequest, signal?: AbortSignal): Promise<WebhookAnswer>
  /**
   * Closes all connections once in-flight attempts have finished. Resolves when everything is closed.
   *
   * @param options.timeoutMs how long to wait for in-flight attempts before interrupting them, in milliseconds
   */
  close(options?: { timeoutMs?: number | undefined }): Promise<void>
}
