import type { IncomingMessage } from 'node:http'
import { printValue } from '../base/options.ts'
import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { Refusal, refusals } from './refusal.ts'

/** Returns `true` for a fetch `Request`, `false` for a node:http request. @throws `TypeError` for anything else */
export function isFetchRequest(request: IncomingMessage | Request): request is Request {
  const { headers } = Object(request)
  if (headers) return typeof headers.get === 'function'
  throw new TypeError(
    `The request must be a node:http or fetch request: current value is ${printValue(request)}`,
  )
}

/**
 * A body that the host has already read. Next.js, Bun, Deno and Workers pass something else as the second argument to a
 * fetch handler. We ignore anything that has neither of these properties.
 */
export interface FetchBody {
  /** The raw body, used instead of the request's own body. */
  readonly rawBody?: string | Uint8Array | undefined
  /** The parsed body, which may itself be a string. Only used if the request's stream was already consumed. */
  readonly body?: unknown
}

/**
 * Converts a fetch `Request` to an {@link ApiRequest}.
 *
 * @param given a {@link FetchBody}, or whatever the host's framework passes as the second argument
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

/** A request that knows whether the body was read. */
export interface FetchRequest extends ApiRequest {
  /** Returns `true` if there's no body, or if the host or our code has read all of it. */
  isRead(): boolean
}

/** Returns a URL's path and query without normalizing them. */
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

/** Converts a reply to a `Response`. */
export function toFetch(reply: ApiReply, request: FetchRequest): Response {
  // An empty string would add a default Content-Type.
  const hasBody = request.method !== 'HEAD' && reply.body.length > 0
  return new Response(hasBody ? (reply.body as string | Uint8Array<ArrayBuffer>) : null, {
    status: reply.status,
    // Like in `toNode`, this makes node:http servers (including Next.js) close the connection.
    headers: request.isRead() ? reply.headers : { ...reply.headers, Connection: 'close' },
  })
}
