import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { refusals } from './refusal.ts'

/** A node:http request with properties that Express or other middleware may add. */
export interface NodeRequest extends IncomingMessage {
  /** The full path, if the host has removed the mount path from `url`. */
  originalUrl?: string
  /** The mount path that Express has removed from `url`. */
  baseUrl?: string
  /** A body parser's output. Can be a value, bytes, or a string that's as long as `Content-Length`. */
  body?: unknown
  /** The raw body (bytes or a string), if a body parser kept it. */
  rawBody?: unknown
  /** The HTTP/2 stream, which destroying the request wouldn't close. */
  stream?: { destroy(): void }
}

/**
 * Converts a node:http request to an {@link ApiRequest}.
 *
 * @param basePath the mount path, can be empty
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

/** Returns `true` if the whole request was received. Node.js may not set `complete` until the next tick. */
function isWhole({ complete, readableLength, headers }: NodeRequest): boolean {
  if (complete || headers === undefined) return complete
  const { 'transfer-encoding': coding, 'content-length': declared = '0' } = headers
  return coding === undefined && readableLength === Number(declared)
}

/** Returns the path and query from a target in absolute form (RFC 9112, section 3.2.2). We ignore its authority. */
function toOriginForm(target: string): string {
  return target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]+/i, '') || '/'
}

/**
 * Returns a header's value. We don't use `headers` because it drops all but the first Authorization header, and we must
 * not accept a caller that sends two keys.
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

/** Reads the body once, even if middleware has already read it. Never waits for a consumed body. */
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
 * Returns `true` if a string is a raw body and still has to be decoded from JSON. A string that a parser has decoded is
 * always shorter than the body because the quotes are gone. Without a known length, we assume it's decoded.
 */
function isWholeText(body: string, { headers }: NodeRequest): boolean {
  return Number(headers['content-length']) === Buffer.byteLength(body)
}

function readStream(request: NodeRequest, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // If the caller disconnected during admission, 'close' was already emitted and won't fire again.
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
      // It's a string if the host has set an encoding for the stream.
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

/** How long a caller can keep sending after an early response, in ms, before we close the connection or stream. */
const LINGER_MS = 2000

/** Sends a reply, unless the host has already responded or the caller has disconnected. */
export function toNode(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return
  const body = request.method === 'HEAD' ? '' : reply.body
  if (isWhole(request) || request.httpVersionMajor > 1) {
    response.writeHead(reply.status, reply.headers).end(body)
    if (!request.complete) drain(request, () => {})
    return
  }
  // Otherwise a proxy could send another request after a body that never ends.
  response.writeHead(reply.status, { ...reply.headers, Connection: 'close' })
  if (body.length > 0) response.write(body)
  else response.flushHeaders()
  // Ending the response closes the connection, so wait for the end of the body.
  drain(request, () => response.end())
}

/**
 * Discards the rest of a body. If we closed the connection immediately, the reply could get lost. If we never closed
 * the connection, an endless body would keep it open.
 */
function drain(request: NodeRequest, onEnd: () => void): void {
  const closing = request.httpVersionMajor > 1 ? request.stream : request
  const timer = setTimeout(() => closing?.destroy(), LINGER_MS)
  request
    .on('error', () => {})
    .once('end', onEnd)
    .once('close', () => {
      clearTimeout(timer)
      onEnd()
    })
    .resume()
}
