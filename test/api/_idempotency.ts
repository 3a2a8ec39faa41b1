import assert from 'node:assert/strict'
import { after } from 'node:test'
import {
  type Answer,
  assertSafeHeaders,
  type Fields,
  idOf,
  listOf,
  type Organization,
  request,
  serve,
  startPlatform,
} from './_api.ts'

export const platform = await startPlatform()
export const api = platform.apiWith({ rateLimit: false })
export const server = await serve((incoming, response) => api(incoming, response))
after(async () => {
  await server.close()
  await platform.close()
})

export const CLIENTS = '/api/v1/clients'
export const LEADS = '/api/v1/leads'
export const MISMATCH = 'Idempotency-Key was already used with a different request body'

export function post(
  path: string,
  { key }: { key: string },
  idempotencyKey: string,
  json: unknown,
): Promise<Answer> {
  return request(api, path, { key, json, headers: { 'Idempotency-Key': idempotencyKey } })
}

export function assertReplay(replay: Answer, original: Answer): void {
  assert.equal(replay.status, 200)
  assert.equal(replay.text, original.text)
  assert.equal(replay.headers.get('idempotent-replayed'), 'true')
  assertSafeHeaders(replay)
  assert.match(replay.headers.get('x-request-id') ?? '', idOf('req'))
  assert.notEqual(replay.headers.get('x-request-id'), original.headers.get('x-request-id'))
}

export async function clientsOf({ key }: Organization): Promise<Fields[]> {
  return listOf(await request(api, `${CLIENTS}?limit=200`, { key }))
}

export async function eventsOf({ id }: Organization): Promise<string[]> {
  const rows = await platform.sql`
    select type from business_api.events where organization_id = ${id} order by id`
  return rows.map(({ type }) => String(type))
}
