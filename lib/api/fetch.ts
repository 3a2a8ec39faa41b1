import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { Refusal, refusals } from './refusal.ts'

/** Sees a `Request` as the core does. */
export function fromFetch(request: Request): ApiRequest {
  return {
    method: request.method,
    url: targetOf(request.url),
    header: (name) => request.headers.get(name) ?? undefined,
    body: (maxBytes) => readBody(request, maxBytes),
  }
}

/** Path and query as they stand in the URL: what follows the authority. */
function targetOf(url: string): string {
  const authority = url.indexOf('://') + 3
  const path = url.indexOf('/', authority)
  const target = path === -1 ? '/' : url.slice(path)
  const fragment = target.indexOf('#')
  return fragment === -1 ? target : target.slice(0, fragment)
}

async function readBody(request: Request, maxBytes: number): Promise<RequestBody> {
  if (request.bodyUsed || request.body?.locked)
    throw new TypeError('Cannot read the request body as it was consumed before this handler')
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
export function toFetch(reply: ApiReply, request: Request): Response {
  const hasBody = request.method !== 'HEAD' && reply.status !== 204 && reply.status !== 304
  return new Response(hasBody ? reply.body : null, { status: reply.status, headers: reply.headers })
}
