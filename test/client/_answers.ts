import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { type ApiClient, type ApiClientOptions, ApiError, createApiClient } from '../../lib/client.ts'

// An API that responds as the test says, without a network.

export const URL_OF_API = 'https://app.example'
export const KEY = 'bapi_live_s3cret'

/** A request sent by the client. */
export interface Made {
  readonly url: string
  readonly init: RequestInit & { readonly headers: Readonly<Record<string, string>> }
}

/** A client whose requests receive the given responses in turn. The last one is repeated. */
export interface Scripted {
  readonly api: ApiClient
  readonly requests: Made[]
  readonly waits: number[]
}

/** Creates a client and its API. Waits return immediately. */
export function script(
  answers: readonly ((init: RequestInit) => Response | Promise<Response>)[],
  options: Partial<ApiClientOptions> = {},
): Scripted {
  const requests: Made[] = []
  const waits: number[] = []
  const api = createApiClient({
    url: URL_OF_API,
    key: KEY,
    async fetch(url, init) {
      requests.push({ url, init: init as Made['init'] })
      const answer = answers[Math.min(requests.length, answers.length) - 1]
      assert.ok(answer)
      return answer(init)
    },
    wait: async (ms) => waits.push(ms),
    ...options,
  })
  return { api, requests, waits }
}

/** Returns a JSON response. */
export function json(body: unknown, headers: Readonly<Record<string, string>> = {}, status = 200) {
  return () => new Response(JSON.stringify(body), { status, headers })
}

/** Returns an error response in the API's format. */
export function refusal(status: number, headers: Readonly<Record<string, string>> = {}) {
  return json({ error: `Refused with ${status}`, requestId: 'req_1' }, headers, status)
}

/** Fails without a response. */
export function lost(code = 'ECONNRESET'): () => never {
  return () => {
    throw new TypeError('fetch failed', { cause: Object.assign(new Error('lost'), { code }) })
  }
}

/** Returns the error of a call. Asserts that it doesn't contain the key. */
export async function errorOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => assert.fail('succeeded'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof ApiError, inspect(error))
  const shown = `${error.stack} ${JSON.stringify(error)} ${inspect(error, { depth: 10, showHidden: true })}`
  assert.ok(!shown.includes(KEY), shown)
  return error
}

/** Returns all records of a list. */
export async function collect<Item>(list: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of list) items.push(item)
  return items
}
