import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ApiReply, ApiRequest, RequestBody } from './message.ts'
import { refusals } from './refusal.ts'

/** A request of node:http, with what Express and other hosts' middleware may have added to it. */
export interface NodeRequest extends IncomingMessage {
  /** The full path, when the host has stripped its mount path from `url`. */
  originalUrl?: string
  /** What a body parser has made of the body: a value, bytes, or text as long as `Content-Length` says. */
  body?: unknown
  /** The body as it came, bytes or text, that a body parser has kept. */
  rawBody?: unknown
}

/** Sees a node:http request as the core does. */
export function fromNode(request: NodeRequest, basePath: string): ApiRequest {
  const { method = 'GET', url = '/', originalUrl } = request
  return {
    method,
    url: toOriginForm(basePath === '' ? url : (originalUrl ?? url)),
    header: (name) => readHeader(request, name),
    body: (maxBytes) => readBody(request, maxBytes),
  }
}

/** Path and query of a target in absolute form (RFC 9112, section 3.2.2), whose authority is never used. */
function toOriginForm(target: string): string {
  return target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]+/i, '') || '/'
}

/** `headers` keeps only the first of a repeated Authorization; a caller who sends two must not pass for one of them. */
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

/** Whatever a host's middleware has done with the body before us, it is read exactly once and never waited for in vain. */
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
    'Cannot read the request body as it was consumed before this handler without leaving req.rawBody or req.body',
  )
}

/**
 * Tells the text of a body from a JSON string that a parser has decoded, which must not be decoded again. A decoded one is
 * shorter than what was sent, by its quotes at least; where no length was declared, text counts as decoded.
 */
function isWholeText(body: string, { headers }: NodeRequest): boolean {
  return Number(headers['content-length']) === Buffer.byteLength(body)
}

function readStream(request: NodeRequest, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // A caller who left while the key was judged has had its 'close' already; nothing more would ever come.
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
    // The host may have paused it.
    request.resume()
  })
}

/** How long a caller whose request was answered early may go on sending before the connection is cut. */
const LINGER_MS = 2000

/** Writes a reply, unless the host has answered already or the caller is gone. */
export function toNode(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(reply.status, reply.headers)
  response.end(request.method === 'HEAD' ? undefined : reply.body)
  if (!request.complete) drain(request)
}

/**
 * Reads and drops what is left of a body that nobody wants. Cutting the connection at once could destroy the reply on its
 * way; never cutting it would let a body without end hold the connection.
 */
function drain(request: NodeRequest): void {
  request.on('error', () => {})
  request.resume()
  const timer = setTimeout(() => request.destroy(), LINGER_MS)
  request.once('close', () => clearTimeout(timer))
}
