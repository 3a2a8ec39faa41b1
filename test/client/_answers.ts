import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { type ApiClient, type ApiClientOptions, ApiError, createApiClient } from '../../lib/client.ts'

// An API that answers as a test says, without a network.

export const URL_OF_API = 'https://app.example'
export const KEY = 'bapi_live_s3cret'

/** A request as the client made it. */
export interface Made {
  readonly url: string
  readonly init: RequestInit & { readonly headers: Readonly<Record<string, string>> }
}

/** A client whose requests get the given answers in turn, the last answer for every further request. */
export interface Scripted {
  readonly api: ApiClient
  readonly requests: Made[]
  readonly waits: number[]
}

/** Makes a client and its API. Waits take no time. */
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

/** An answer with JSON. */
export function json(body: unknown, headers: Readonly<Record<string, string>> = {}, status = 200) {
  return () => new Response(JSON.stringify(body), { status, headers })
}

/** A refusal in the form of the API. */
export function refusal(status: number, headers: Readonly<Record<string, string>> = {}) {
  return json({ error: `Refused with ${status}`, requestId: 'req_1' }, headers, status)
}

/** No answer. */
export function lost(code = 'ECONNRESET'): () => never {
  return () => {
    throw new TypeError('fetch failed', { cause: Object.assign(new Error('lost'), { code }) })
  }
}

/** The error of a call; asserts that nothing of the error shows the key. */
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

/** All records of a list. */
export async function collect<Item>(list: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of list) items.push(item)
  return items
}
