import {
  isMatching,
  type OptionReaders,
  type ReadBy,
  readEach,
  readFunction,
  readHaving,
  whole,
} from '../base/options.ts'

/** Options for `createApiClient`. Only read once. */
export interface ApiClientOptions {
  /** The API's URL without `/api/v1`, but including any mount path, for example `https://app.example/platform`. */
  readonly url: string
  /** The API key. Sent in the Authorization header and not used anywhere else. */
  readonly key: string
  /** Timeout per attempt in milliseconds, from the DNS lookup to the last byte. Defaults to 10,000. */
  readonly timeoutMs?: number | undefined
  /** Maximum number of retries if a failure may be temporary. Defaults to 5. */
  readonly maxRetries?: number | undefined
  /** Maximum duration of a call in milliseconds, including all attempts and pauses. Defaults to 60,000. */
  readonly maxDurationMs?: number | undefined
  /** Maximum response body size in bytes, after decompression. Defaults to 10,485,760 (10 MiB). */
  readonly maxResponseBytes?: number | undefined
  /** Aborts all calls. See {@link CallOptions}. */
  readonly signal?: AbortSignal | undefined
  /** Sends the requests. Defaults to whatever the global `fetch` is when a request is sent. */
  readonly fetch?: Fetch | undefined
  /** Waits for some milliseconds, and rejects if the signal is aborted. Defaults to a timer. Can be mocked in tests. */
  readonly wait?: Wait | undefined
}

/** Options for every call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. A create may still have been executed. */
  readonly signal?: AbortSignal | undefined
}

/** A function like the global `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Waits for the given number of milliseconds, and rejects if the signal is aborted. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<unknown>

const READERS = {
  /** Without a trailing slash. */
  url: readUrl,
  key: readKey,
  timeoutMs: whole(10_000),
  maxRetries: whole(5, { min: 0 }),
  maxDurationMs: whole(60_000),
  maxResponseBytes: whole(10 * 1024 * 1024),
  signal: readSignal,
  fetch: (given, name): Fetch => readFunction(name, given) ?? ((url, init) => globalThis.fetch(url, init)),
  wait: (given, name): Wait => readFunction(name, given) ?? sleep,
} satisfies OptionReaders<ApiClientOptions>

/** The validated options with defaults filled in. */
export type ResolvedClientOptions = ReadBy<typeof READERS>

/**
 * Validates the options and fills in defaults.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option, but never containing the key
 */
export function resolveClientOptions(options: ApiClientOptions): ResolvedClientOptions {
  return readEach(options, READERS)
}

/** The message doesn't include the URL, because it may contain a password. */
function readUrl(value: string): string {
  const url = isMatching(value, /^[^?#]*$/) && URL.canParse(value) ? new URL(value) : null
  const isUsable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password
  if (isUsable) return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
  throw new TypeError(
    "Option 'url' must be an http or https URL without user, query and fragment: https://app.example",
  )
}

/** We check this here because fetch's error for an invalid header would include the key. */
function readKey(value: string): string {
  if (isMatching(value, /^[!-~]+$/)) return value
  throw new TypeError("Option 'key' must be an API key: visible ASCII without spaces")
}

/** Reads a `signal` option, which can be another realm's. @throws `TypeError` */
export function readSignal(given: AbortSignal | undefined): AbortSignal | undefined {
  return given === undefined
    ? given
    : readHaving("Option 'signal'", given, 'throwIfAborted', 'AbortController')
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
