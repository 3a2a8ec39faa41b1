import assert from 'node:assert/strict'
import { after, type TestContext } from 'node:test'
import type { BusinessApiOptions, BusinessApiStore } from '../../lib/index.ts'
import { type Answer, rawHead, request, serve, startPlatform, type TestServer } from '../api/_api.ts'
import { watchStrays } from '../api/_strays.ts'

export const strays = watchStrays()
export const platform = await startPlatform()
export const api = platform.apiWith({ rateLimit: false })
export const server = await serve((incoming, response) => api(incoming, response))
export const { key } = await platform.organization()
after(async () => {
  await server.close()
  await platform.close()
  assert.deepEqual(strays, [])
})

export const PATH = '/api/v1/clients'
export const MAX = 65_536
export const BODY = '{"name":"Atlas"}'

/** Starts a server for an API with the given options. It stops at the end of the test. */
export async function serveWith(
  t: TestContext,
  options: BusinessApiOptions,
  store?: BusinessApiStore,
): Promise<TestServer> {
  const other = platform.apiWith({ rateLimit: false, ...options }, store)
  const own = await serve((incoming, response) => other(incoming, response))
  t.after(() => own.close())
  return own
}

export function post(body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
  return request(api, PATH, { key, body, headers })
}

/** Returns a body of exactly this many bytes that is valid except for its size. */
export function bodyOf(bytes: number): string {
  const start = '{"name":"Atlas","pad":"'
  return `${start}${'x'.repeat(bytes - start.length - 2)}"}`
}

export function postHead(...headers: string[]): string {
  return rawHead(`POST ${PATH}`, `Authorization: Bearer ${key}`, 'Content-Type: application/json', ...headers)
}

/** Returns a complete POST with a declared length. */
export function rawPost(body: string, ...headers: string[]): string {
  return postHead(`Content-Length: ${Buffer.byteLength(body)}`, ...headers) + body
}

export function chunk(data: string): string {
  return `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`
}

export const LAST_CHUNK = '0\r\n\r\n'
