/** One POST to a subscriber, complete and signed. */
export interface WebhookRequest {
  /** Where to: as registered by the organization. */
  readonly url: string
  /** Content-Type, event id, event type and signature (specification, section 6). */
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
  /** At most the first 4 KiB of the answer's body, for the delivery log. */
  readonly bodyExcerpt: string
  /** The whole attempt, from the name look-up to the last byte read. */
  readonly durationMs: number
}

/**
 * Sends one webhook. A sender makes one attempt and tells what happened: it never retries, follows no redirect, takes
 * at most 10 seconds in all, and never throws for anything the subscriber or the network does.
 */
export interface WebhookSender {
  send(request: WebhookRequest): Promise<WebhookAnswer>
  /** Releases the connections that are kept open. Resolves when none is left. */
  close(): Promise<void>
}
