import { type OptionReaders, type ReadBy, readEach, readFunction, whole } from '../base/options.ts'

/** Options of `createApiClient`, each read once. */
export interface ApiClientOptions {
  /** The address of the API without `/api/v1`, the prefix of a mount included: `https://app.example/platform`. */
  readonly url: string
  /** The API key. Sent in the header Authorization and shown nowhere else. */
  readonly key: string
  /** Timeout of an attempt, from the name lookup to the response's last byte, in ms. Default 10,000. */
  readonly timeoutMs?: number | undefined
  /** Attempts after the first, for a call that may succeed later. Default 5; 0: none. */
  readonly maxRetries?: number | undefined
  /** Maximum duration of a call with all attempts and waits, in ms: no wait goes beyond, and no attempt begins later. Default 60,000. */
  readonly maxDurationMs?: number | undefined
  /** Maximum size of a response body, in bytes after decompression. Default 10,485,760: 10 MiB. */
  readonly maxResponseBytes?: number | undefined
  /** Ends every call: see {@link CallOptions}. */
  readonly signal?: AbortSignal | undefined
  /** Makes the requests. Default: the global `fetch` at the time of the request. */
  readonly fetch?: Fetch | undefined
  /** Waits so many milliseconds, and rejects when the signal is aborted. Default a timer; tests need not wait. */
  readonly wait?: Wait | undefined
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call: the call rejects with the reason of the signal. A create that was sent may have been run. */
  readonly signal?: AbortSignal | undefined
}

/** A function like the global `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Waits so many milliseconds, and rejects when the signal is aborted. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<unknown>

const READERS = {
  /** Without a slash at the end. */
  url: readUrl,
  key: readKey,
  timeoutMs: whole(10_000),
  maxRetries: whole(5, { min: 0 }),
  maxDurationMs: whole(60_000),
  maxResponseBytes: whole(10 * 1024 * 1024),
  signal: (given) => given,
  fetch: (given, name): Fetch => readFunction(name, given) ?? ((url, init) => globalThis.fetch(url, init)),
  wait: (given, name): Wait => readFunction(name, given) ?? sleep,
} satisfies OptionReaders<ApiClientOptions>

/** The options after defaults and checks. */
export type ResolvedClientOptions = ReadBy<typeof READERS>

/**
 * Fills in the defaults and checks the options.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option, and never showing the key
 */
export function resolveClientOptions(options: ApiClientOptions): ResolvedClientOptions {
  return readEach(options, READERS)
}

/** The message does not show the URL, which may hold a password. */
function readUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null
  const isUsable =
    url && /^https?:$/.test(url.protocol) && !/[?#]/.test(value) && !url.username && !url.password
  if (isUsable) return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
  throw new TypeError(
    "Cannot use option 'url' because it must be an http or https URL without user, query and fragment: https://app.example",
  )
}

/** Checked here, because an error of fetch about an invalid header would show the key. */
function readKey(value: string): string {
  if (typeof value === 'string' && /^[!-~]+$/.test(value)) return value
  throw new TypeError("Cannot use option 'key' because it must be an API key: visible ASCII without spaces")
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, ms)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}
