import { readRetryAfter } from '../base/retry-after.ts'
import { ApiError, INVALID_RESPONSE, judgeStatus, NETWORK_FAILED, TIMEOUT } from './api-error.ts'
import type { ResolvedClientOptions } from './client-options.ts'
import { readBytes } from './read-bytes.ts'

/** A client request. Every attempt sends the same bytes. */
export interface ClientRequest {
  /** Used in messages, for example `list clients`. */
  readonly action: string
  readonly method: 'GET' | 'POST'
  readonly url: string
  /** JSON. */
  readonly body: string | null
  readonly idempotencyKey: string | null
}

/** A successful (200) API response. */
export interface ClientAnswer<Data> {
  readonly data: Data
  readonly headers: Headers
}

/** Parsed JSON from a response, which may not even come from the API. */
export interface AnswerBody {
  readonly data?: unknown
  readonly error?: unknown
  readonly requestId?: unknown
}

/** Returns a response's data, or `undefined` if the shape is wrong. */
export type ReadData<Data> = (body: AnswerBody) => Data | undefined

type AttemptOptions = Pick<ResolvedClientOptions, 'fetch' | 'key' | 'timeoutMs' | 'maxResponseBytes'>

/** Maximum number of characters to quote from an error response. A proxy may respond with an entire page. */
const EXCERPT_MAX = 200

/**
 * Sends a request once.
 *
 * @param signal aborts the attempt, which then rejects with the signal's reason
 * @throws `ApiError` for every other failure
 */
export async function attempt<Data>(
  { fetch, key, timeoutMs, maxResponseBytes }: AttemptOptions,
  request: ClientRequest,
  read: ReadData<Data>,
  signal: AbortSignal,
): Promise<ClientAnswer<Data>> {
  const controller = new AbortController()
  const end = (): void => controller.abort()
  const timer = setTimeout(end, timeoutMs)
  signal.addEventListener('abort', end)
  const describe = (text: string): string => toLine(text, key)
  try {
    signal.throwIfAborted()
    const response = await fetch(request.url, toInit(request, key, controller.signal))
    // The timeout includes the body, because an incomplete response is useless.
    const bytes = await readBytes(response, maxResponseBytes)
    const isTooLarge = bytes === null && redirectOf(request, response) === null
    if (isTooLarge) throw tooLarge(request, response, maxResponseBytes)
    return readAnswer(request, response, new TextDecoder().decode(bytes ?? undefined), read, describe)
  } catch (error) {
    if (error instanceof ApiError) throw error
    signal.throwIfAborted()
    const isTimeout = controller.signal.aborted
    const reason = isTimeout ? `no complete response within ${timeoutMs} ms` : describe(reasonOf(error))
    // We don't set the error as the cause, because a custom fetch may include the request in it.
    throw new ApiError(`Cannot ${request.action} because the API did not respond (${reason})`, {
      code: isTimeout ? TIMEOUT : NETWORK_FAILED,
      isTransient: true,
    })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
}

function toInit(
  { method, body, idempotencyKey }: ClientRequest,
  key: string,
  signal: AbortSignal,
): RequestInit {
  const headers: Record<string, string> = { Accept: 'application/json', Authorization: `Bearer ${key}` }
  if (idempotencyKey !== null) headers['Idempotency-Key'] = idempotencyKey
  if (body !== null) headers['Content-Type'] = 'application/json'
  // Following a redirect would turn a POST into a GET, and could send the key to another server.
  return { method, headers, body, signal, redirect: 'manual' }
}

function readAnswer<Data>(
  request: ClientRequest,
  response: Response,
  text: string,
  read: ReadData<Data>,
  describe: (text: string) => string,
): ClientAnswer<Data> {
  const { status, headers } = response
  const body = parseObject(text)
  const data = status === 200 ? read(body) : undefined
  if (data !== undefined) return { data, headers }
  const reason = describe(redirectOf(request, response) ?? textOf(body.error) ?? text)
  const requestId = describe(textOf(body.requestId) ?? headers.get('x-request-id') ?? '') || null
  const judged = status === 200 ? UNREADABLE : judgeStatus(status)
  const said = judged.code === INVALID_RESPONSE ? `not a response of the API: ${reason}` : reason
  throw answerError(request, response, `: ${said} (${requestId ?? 'no request id'})`, {
    ...judged,
    requestId,
  })
}

/** Maximum wait that an error reports (one day), in ms. A timer set to 25 days or more would fire immediately. */
const WAIT_MAX_MS = 86_400_000

function answerError(
  { action }: ClientRequest,
  { status, headers }: Response,
  rest: string,
  facts: Omit<ConstructorParameters<typeof ApiError>[1], 'status' | 'retryAfterMs'>,
): ApiError {
  const [retryAfter, date] = [headers.get('retry-after') ?? undefined, headers.get('date') ?? undefined]
  const waitMs = readRetryAfter(retryAfter, date, Date.now())
  const retryAfterMs = waitMs && Math.min(waitMs, WAIT_MAX_MS)
  return new ApiError(`Cannot ${action} because the API responded with ${status}${rest}`, {
    ...facts,
    status,
    retryAfterMs,
  })
}

/** Returns a redirect's target without its credentials and query, or `null` if the response isn't a redirect. */
function redirectOf({ url }: ClientRequest, { status, headers }: Response): string | null {
  const location = status >= 300 && status < 400 ? headers.get('location') : null
  if (location === null) return null
  return `a redirect to ${placeOf(location, url)}, which is not followed: check option 'url'`
}

/** Use the parsed URL, because `https:ada:secret@h` looks like a relative path but contains credentials. */
function placeOf(location: string, base: string): string {
  const url = URL.canParse(location)
    ? new URL(location)
    : URL.canParse(location, base) && new URL(location, base)
  return url && /^https?:$/.test(url.protocol) ? `${url.origin}${url.pathname}` : 'not an http URL'
}

/** Returns the error for a response over the size limit. Retrying only helps if a proxy sent it. */
function tooLarge(request: ClientRequest, response: Response, maxBytes: number): ApiError {
  const rest = ` with more than ${maxBytes} bytes: raise option 'maxResponseBytes', or ask for smaller pages`
  const requestId = response.headers.get('x-request-id')
  return answerError(request, response, rest, { ...judgeStatus(response.status), requestId })
}

/** We treat a 200 that can't be parsed as a lost response. */
const UNREADABLE = { code: INVALID_RESPONSE, isTransient: true } as const

/** Returns an empty object for anything that isn't a JSON object. */
function parseObject(json: string): AnswerBody {
  try {
    return Object(JSON.parse(json))
  } catch {
    return {}
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** fetch only says "fetch failed". The actual reason is in the error's cause. */
function reasonOf(error: unknown): string {
  const { cause, message } = Object(error) as { cause?: unknown; message?: unknown }
  const { code } = Object(cause) as { code?: unknown }
  return textOf(code) ?? textOf(Object(cause).message) ?? textOf(message) ?? String(error)
}

/** Returns a string as a single line and without the API key, in case a proxy or custom fetch has included it. */
function toLine(text: string, key: string): string {
  const line = text.replaceAll(key, '[key]').replaceAll(/\s+/g, ' ').trim()
  return [...line.slice(0, EXCERPT_MAX * 2)].slice(0, EXCERPT_MAX).join('')
}
