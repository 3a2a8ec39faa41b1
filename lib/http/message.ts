/**
 * A request as the core sees it, whoever received it. No framework's request and no `Request` is built for it: that
 * alone would cost several times what the rest of the way through the core does.
 */
export interface ApiRequest {
  /** As sent: `GET`. */
  readonly method: string
  /** Path and query as sent, never resolved against a host: `/api/v1/clients?limit=10`. */
  readonly url: string
  /**
   * The value of a header, repeated ones joined with `, `; `undefined` when absent.
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
  /**
   * Reads the body; called at most once, and only when it is needed.
   *
   * @throws `Refusal` 413 as soon as more than `maxBytes` have come
   */
  body(maxBytes: number): Promise<RequestBody>
}

/** A body: the bytes, or what the host's own middleware has already parsed from them. */
export type RequestBody =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'parsed'; readonly value: unknown }

/** A complete answer. */
export interface ApiReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for a HEAD request, 204 and 304. */
  readonly body: string | Uint8Array
}
