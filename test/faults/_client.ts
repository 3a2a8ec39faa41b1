import { Agent, type IncomingHttpHeaders, request as startRequest } from 'node:http'

/** A request of a caller. */
export interface Call {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: object
  readonly idempotencyKey?: string
}

/** The outcome of a request. */
export interface Answer {
  /** `lost` when the connection broke, `none` when nothing came in {@link PATIENCE_MS}: a request that hangs. */
  readonly status: number | 'lost' | 'none'
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly ms: number
}

/** A caller of the API. */
export interface Caller {
  send(call: Call): Promise<Answer>
  close(): void
}

/** The API's deadline of five seconds, and a margin for a busy machine. */
const PATIENCE_MS = 6500

/** Calls the API on a port of this machine with an API key, over connections that are kept open. */
export function createCaller(port: number, apiKey: string): Caller {
  const agent = new Agent({ keepAlive: true })
  return {
    send: (call) => send(agent, port, apiKey, call),
    close: () => agent.destroy(),
  }
}

function send(
  agent: Agent,
  port: number,
  apiKey: string,
  { method, path, body, idempotencyKey }: Call,
): Promise<Answer> {
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const end = (status: Answer['status'], headers: IncomingHttpHeaders = {}, text = ''): void => {
      clearTimeout(timer)
      resolve({ status, headers, body: text, ms: performance.now() - startedAt })
    }
    const timer = setTimeout(() => {
      end('none')
      request.destroy()
    }, PATIENCE_MS)
    const request = startRequest({ agent, host: '127.0.0.1', port, method, path }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => end(response.statusCode ?? 'lost', response.headers, text))
      response.on('error', () => end('lost'))
    })
    request.on('error', () => end('lost'))
    request.setHeader('authorization', `Bearer ${apiKey}`)
    if (idempotencyKey !== undefined) request.setHeader('idempotency-key', idempotencyKey)
    if (body !== undefined) request.setHeader('content-type', 'application/json')
    request.end(body && JSON.stringify(body))
  })
}
