/**
 * A request in the form our handlers need, whether it came from node:http, a framework or fetch. Creating a framework's
 * request or a `Request` would take several times longer than the handler itself.
 */
export interface ApiRequest {
  /** As sent, for example `GET`. */
  readonly method: string
  /** The path and query as sent, without the host, for example `/api/v1/clients?limit=10`. */
  readonly url: string
  /**
   * Returns a header's value, or `undefined` if it's absent. Repeated headers are joined with `, `.
   *
   * @param name must be lowercase
   */
  header(name: string): string | undefined
  /**
   * Reads the body. Called at most once, and only if we need the body.
   *
   * @throws `Refusal` with status 413 as soon as more than `maxBytes` have been received
   */
  body(maxBytes: number): Promise<RequestBody>
}

/** A body, either raw or already parsed by the host's middleware. */
export type RequestBody =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'parsed'; readonly value: unknown }

/** A complete response. */
export interface ApiReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for HEAD requests and for statuses 204 and 304. */
  readonly body: string | Uint8Array
}
