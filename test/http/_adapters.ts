import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { after, type TestContext } from 'node:test'
import type express5 from 'express'
import type { BusinessApi, BusinessApiOptions } from '../../lib/index.ts'
import {
  type Answer,
  assertFields,
  type Failure,
  rawHead,
  rawRequest,
  record,
  recordOf,
  serve,
  startPlatform,
  type TestServer,
} from '../api/_api.ts'
import { watchStrays } from '../api/_strays.ts'

export const strays = watchStrays()
export const platform = await startPlatform()
export const { key } = await platform.organization()
after(async () => {
  await platform.close()
  assert.deepEqual(strays, [])
})

// For these tests, Express 4 has the same interface as 5. Its types aren't installed.
export const express4 = createRequire(import.meta.url)('express4') as typeof express5

export const PATH = '/api/v1/clients'
export const BODY = '{"name":"Atlas 🏺"}'

export async function listen(t: TestContext, listener: RequestListener): Promise<TestServer> {
  const server = await serve(listener)
  t.after(() => server.close())
  return server
}

/** Returns an API with default options and no limits, and the calls to onError. */
export function watched(options: BusinessApiOptions = {}): { api: BusinessApi; failures: Failure[] } {
  const failures: Failure[] = []
  return { api: platform.apiWith({ rateLimit: false, onError: record(failures), ...options }), failures }
}

export function post(
  server: TestServer,
  body: string | Uint8Array = BODY,
  ...headers: string[]
): Promise<Answer> {
  return postTo(server, PATH, body, ...headers)
}

export function postTo(
  server: TestServer,
  path: string,
  body: string | Uint8Array,
  ...headers: string[]
): Promise<Answer> {
  const bytes = Buffer.from(body)
  const type = headers.some((header) => /^content-type:/i.test(header))
    ? []
    : ['Content-Type: application/json']
  const head = rawHead(
    `POST ${path}`,
    `Authorization: Bearer ${key}`,
    `Content-Length: ${bytes.length}`,
    ...type,
    ...headers,
  )
  return rawRequest(server, Buffer.concat([Buffer.from(head), bytes]))
}

/** Returns a complete POST without a declared length. */
export function chunkedPost(body: string, path: string = PATH): string {
  const head = rawHead(
    `POST ${path}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  )
  return `${head}${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`
}

export function get(server: TestServer, path: string = PATH): Promise<Answer> {
  return rawRequest(server, rawHead(`GET ${path}`, `Authorization: Bearer ${key}`))
}

export function assertCreated(answer: Answer, name = 'Atlas 🏺'): void {
  const { business } = recordOf(answer)
  assertFields(business)
  assert.equal(business.name, name)
}
