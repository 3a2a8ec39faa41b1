import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

// Requests of the suite over HTTP/1.1 and HTTP/2, bad ones included.

/** The listening port of a host. */
export interface Target {
  readonly port: number
  readonly isHttp2: boolean
  readonly key: string
}

/** An answer. */
export interface Answer {
  readonly status: number
  readonly requestId: string | undefined
  readonly text: string
}

const HEADERS = { 'content-type': 'application/json' }

/**
 * Sends a request; a POST with a body.
 *
 * @param isSized false for a body without a declared length
 */
export async function send(target: Target, path: string, body?: string, isSized = true): Promise<Answer> {
  return target.isHttp2 ? sendHttp2(target, path, body, isSized) : sendHttp1(target, path, body, isSized)
}

async function sendHttp1(
  { port, key }: Target,
  path: string,
  body: string | undefined,
  isSized: boolean,
): Promise<Answer> {
  const sent = body === undefined || isSized ? body : new Blob([body]).stream()
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...HEADERS, authorization: `Bearer ${key}`, connection: 'close' },
    ...(sent !== undefined && { body: sent, duplex: 'half' as const }),
    signal: AbortSignal.timeout(20_000),
  })
  const requestId = response.headers.get('x-request-id') ?? undefined
  return { status: response.status, requestId, text: await response.text() }
}

function sendHttp2(
  { port, key }: Target,
  path: string,
  body: string | undefined,
  isSized: boolean,
): Promise<Answer> {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  const sent = new Promise<Answer>((resolve, reject) => {
    session.on('error', reject)
    const stream = session.request({
      ':method': body === undefined ? 'GET' : 'POST',
      ':path': path,
      authorization: `Bearer ${key}`,
      ...HEADERS,
      ...(body !== undefined && isSized && { 'content-length': Buffer.byteLength(body) }),
    })
    let status = 0
    let requestId: string | undefined
    let text = ''
    stream.setTimeout(20_000, () => reject(new Error('No answer in 20 s')))
    stream.on('response', (headers) => {
      status = Number(headers[':status'])
      requestId = headers['x-request-id'] as string | undefined
    })
    stream.setEncoding('utf8')
    stream.on('data', (chunk) => {
      text += chunk
    })
    stream.on('error', reject)
    stream.on('end', () => resolve({ status, requestId, text }))
    stream.end(body)
  })
  return sent.finally(() => session.destroy())
}

/** Sends half of a POST and goes away. */
export async function abort({ port, key, isHttp2 }: Target, path: string, name: string): Promise<void> {
  const half = `{"name":"${name}"`
  if (isHttp2) {
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    session.on('error', () => {})
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      authorization: `Bearer ${key}`,
      ...HEADERS,
    })
    stream.on('error', () => {})
    stream.write(half)
    await sleep(60)
    session.destroy()
  } else {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${half.length + 1}\r\n\r\n`
    socket.write(head + half)
    await sleep(60)
    socket.destroy()
  }
  await sleep(60)
}
