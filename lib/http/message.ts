/**
 * A request as the handlers of the library see the request, received by node:http, a framework or fetch. Building a
 * framework's request or a `Request` would cost several times as much as the rest of the way through the handler.
 */
export interface ApiRequest {
  /** As sent: `GET`. */
  readonly method: string
  /** Path and query as sent, never resolved against a host: `/api/v1/clients?limit=10`. */
  readonly url: string
  /**
   * Returns a header's value, or a repeated header's values joined with `, `; `undefined` when absent.
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
  /**
   * Reads the body; called at most once, and only when the body is needed.
   *
   * @throws `Refusal` 413 as soon as more than `maxBytes` have come
   */
  body(maxBytes: number): Promise<RequestBody>
}

/** A body: the bytes, or the value that the host's own middleware has already parsed. */
export type RequestBody =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'parsed'; readonly value: unknown }

/** A complete response. */
export interface ApiReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for a HEAD request, 204 and 304. */
  readonly body: string | Uint8Array
}
