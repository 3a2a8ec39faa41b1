import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { refusals } from './refusal.ts'

/** A request of node:http, with the properties that Express or other middleware may have added. */
export interface NodeRequest extends IncomingMessage {
  /** The full path, when the host has stripped the mount path from `url`. */
  originalUrl?: string
  /** The mount path that Express has stripped from `url`. */
  baseUrl?: string
  /** The result of a body parser: a value, bytes, or a string with the length of `Content-Length`. */
  body?: unknown
  /** The body as received, bytes or a string, kept by a body parser. */
  rawBody?: unknown
}

/**
 * Adapts a request of node:http to {@link ApiRequest}.
 *
 * @param basePath the mount path in front of the API's paths; may be empty
 */
export function fromNode(request: NodeRequest, basePath: string): ApiRequest {
  const { method = 'GET', url = '/', originalUrl } = request
  return {
    method,
    url: toOriginForm(basePath === '' ? url : (originalUrl ?? url)),
    header: (name) => readHeader(request, name),
    body: (maxBytes) => readBody(request, maxBytes),
  }
}

/** Node.js calls a request complete only in its next turn, though the body came with the head. */
function isWhole({ complete, readableLength, headers }: NodeRequest): boolean {
  if (complete || headers === undefined) return complete
  const { 'transfer-encoding': coding, 'content-length': declared = '0' } = headers
  return coding === undefined && readableLength === Number(declared)
}

/** Returns the path and query of a target in absolute form (RFC 9112, section 3.2.2). The authority is never used. */
function toOriginForm(target: string): string {
  return target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]+/i, '') || '/'
}

/**
 * `headers` keeps only the first of several Authorization headers; a caller who sends two keys must not pass with the
 * first.
 */
function readHeader({ rawHeaders, headers }: NodeRequest, name: string): string | undefined {
  if (rawHeaders === undefined || rawHeaders.length === 0) {
    const value = headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }
  let found: string | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const candidate = rawHeaders[index]
    if (candidate?.length === name.length && candidate.toLowerCase() === name) {
      const value = rawHeaders[index + 1] ?? ''
      found = found === undefined ? value : `${found}, ${value}`
    }
  }
  return found
}

/** Reads the body exactly once, also after a host's middleware, and never waits for a body that has been consumed. */
async function readBody(request: NodeRequest, maxBytes: number): Promise<RequestBody> {
  const { rawBody, body } = request
  if (rawBody instanceof Uint8Array) return { kind: 'bytes', bytes: rawBody }
  if (typeof rawBody === 'string') return { kind: 'bytes', bytes: Buffer.from(rawBody) }
  if (!request.readableDidRead && !request.readableEnded) {
    return { kind: 'bytes', bytes: await readStream(request, maxBytes) }
  }
  if (body instanceof Uint8Array) return { kind: 'bytes', bytes: body }
  if (typeof body === 'string' && isWholeText(body, request))
    return { kind: 'bytes', bytes: Buffer.from(body) }
  if (body !== undefined) return { kind: 'parsed', value: body }
  throw new TypeError(
    'Cannot read the request body because it was consumed before this handler without leaving req.rawBody or req.body: ' +
      'keep the bytes in req.rawBody, or mount the API before the code that reads the body',
  )
}

/**
 * Distinguishes a raw body from a JSON string that a parser has already decoded. A decoded string must not be decoded again, and is
 * shorter than the body, by the quotes at least. Without a declared length, a string counts as decoded.
 */
function isWholeText(body: string, { headers }: NodeRequest): boolean {
  return Number(headers['content-length']) === Buffer.byteLength(body)
}

function readStream(request: NodeRequest, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // If the caller left during admission, 'close' was emitted before this listener and no event would follow.
    if (request.destroyed) {
      reject(refusals.malformed('Request body ended early'))
      return
    }
    const chunks: Buffer[] = []
    let size = 0
    const stop = (): void => {
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (data: Buffer | string): void => {
      // Text, where the host has set an encoding on the stream.
      const chunk = typeof data === 'string' ? Buffer.from(data, request.readableEncoding ?? 'utf8') : data
      size += chunk.length
      if (size <= maxBytes) {
        chunks.push(chunk)
        return
      }
      stop()
      reject(refusals.tooLarge(maxBytes))
    }
    const onEnd = (): void => {
      stop()
      resolve(Buffer.concat(chunks))
    }
    const onGone = (): void => {
      stop()
      reject(refusals.malformed('Request body ended early'))
    }
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
    // The host may have paused the stream.
    request.resume()
  })
}

/** How long a caller may go on sending after an early response, in ms. Then the connection is cut. */
const LINGER_MS = 2000

/** Writes a reply, unless the host has answered already or the caller is gone. */
export function toNode(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return
  const body = request.method === 'HEAD' ? '' : reply.body
  if (isWhole(request) || request.httpVersionMajor > 1) {
    response.writeHead(reply.status, reply.headers).end(body)
    if (!request.complete) drain(request, () => {})
    return
  }
  // Otherwise a proxy sends the next caller's request after a body that never ends.
  response.writeHead(reply.status, { ...reply.headers, Connection: 'close' })
  if (body.length > 0) response.write(body)
  else response.flushHeaders()
  // The end of the response closes the connection, so it comes after the end of the body.
  drain(request, () => response.end())
}

/**
 * Reads and drops the rest of a body that is not needed. Cutting the connection at once could destroy the reply on its
 * way; never cutting the connection would keep the connection open for a body without end.
 */
function drain(request: NodeRequest, onEnd: () => void): void {
  const timer = setTimeout(() => request.destroy(), LINGER_MS)
  request
    .on('error', () => {})
    .once('end', onEnd)
    .once('close', () => {
      clearTimeout(timer)
      onEnd()
    })
    .resume()
}
