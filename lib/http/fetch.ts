import type { IncomingMessage } from 'node:http'
import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { Refusal, refusals } from './refusal.ts'

/** Returns whether a request is a fetch `Request` and not a request of node:http. */
export function isFetchRequest(request: IncomingMessage | Request): request is Request {
  return typeof request.headers.get === 'function'
}

/**
 * A body that the host has read before the API. Next.js, Bun, Deno and Workers pass other second arguments to a fetch
 * handler; an argument without these two properties is ignored.
 */
export interface FetchBody {
  /** The body as received, read in place of the request's own body. */
  readonly rawBody?: string | Uint8Array | undefined
  /** The value that a parser has made of the body; a string is a JSON string. Used only after the request's own body was read. */
  readonly body?: unknown
}

/**
 * Adapts a fetch `Request` to {@link ApiRequest}.
 *
 * @param given a {@link FetchBody}, or another second argument of the host's framework
 */
export function fromFetch(request: Request, given?: unknown): FetchRequest {
  let isRead = request.body === null || request.bodyUsed
  return {
    method: request.method,
    url: targetOf(request.url),
    header: (name) => request.headers.get(name) ?? undefined,
    async body(maxBytes) {
      const body = await readBody(request, Object(given), maxBytes)
      isRead = true
      return body
    },
    isRead: () => isRead,
  }
}

/** A request with the state of its body. */
export interface FetchRequest extends ApiRequest {
  /** Returns whether the body was read to the end, by the host or the API, or is missing. */
  isRead(): boolean
}

/** Returns the path and query of a URL as written: all after the authority. */
function targetOf(url: string): string {
  const authority = url.indexOf('://') + 3
  const path = url.indexOf('/', authority)
  const target = path === -1 ? '/' : url.slice(path)
  const fragment = target.indexOf('#')
  return fragment === -1 ? target : target.slice(0, fragment)
}

async function readBody(
  request: Request,
  { rawBody, body }: Readonly<Record<keyof FetchBody, unknown>>,
  maxBytes: number,
): Promise<RequestBody> {
  if (rawBody instanceof Uint8Array) return { kind: 'bytes', bytes: rawBody }
  if (typeof rawBody === 'string') return { kind: 'bytes', bytes: Buffer.from(rawBody) }
  if (request.bodyUsed || request.body?.locked) {
    if (body !== undefined) return { kind: 'parsed', value: body }
    throw new TypeError(
      'Cannot read the request body because it was consumed before this handler: ' +
        'pass on what was read, as api.fetch(request, { rawBody }) or, if it was parsed, api.fetch(request, { body })',
    )
  }
  try {
    return { kind: 'bytes', bytes: await readStream(request.body ?? [], maxBytes) }
  } catch (error) {
    throw error instanceof Refusal ? error : refusals.malformed('Request body ended early')
  }
}

async function readStream(stream: AsyncIterable<Uint8Array> | [], maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stream) {
    size += chunk.byteLength
    if (size > maxBytes) throw refusals.tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Builds the `Response` of a reply. */
export function toFetch(reply: ApiReply, request: FetchRequest): Response {
  // Not an empty string, which would give the response a content type of its own.
  const hasBody = request.method !== 'HEAD' && reply.body.length > 0
  return new Response(hasBody ? (reply.body as string | Uint8Array<ArrayBuffer>) : null, {
    status: reply.status,
    // As in `toNode`: a node:http server, for example Next.js's, then closes the connection.
    headers: request.isRead() ? reply.headers : { ...reply.headers, Connection: 'close' },
  })
}
