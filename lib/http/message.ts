/**
 * A request as seen by our handlers, no matter whether it came from node:http, a framework or fetch. Building a
 * framework's request or a `Request` would take several times longer than the handler itself.
 */
export interface ApiRequest {
  /** As sent, for example `GET`. */
  readonly method: string
  /** The path and query as sent, without the host, for example `/api/v1/clients?limit=10`. */
  readonly url: string
  /**
   * Returns the value of a header, or `undefined` if it's absent. Repeated headers are joined with `, `.
   *
   * @param name must be lowercase
   */
  header(name: string): string | undefined
  /**
   * Reads the body. Called once at most, and only if the body is needed.
   *
   * @throws `Refusal` with 413 as soon as more than `maxBytes` have been received
   */
  body(maxBytes: number): Promise<RequestBody>
}

/** A body, either raw or as parsed by the host's middleware. */
export type RequestBody =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'parsed'; readonly value: unknown }

/** A complete response. */
export interface ApiReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for HEAD requests and the statuses 204 and 304. */
  readonly body: string | Uint8Array
}
