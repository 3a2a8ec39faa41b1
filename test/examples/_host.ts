import assert from 'node:assert/strict'
import { SCOPES } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'

/** The parts that an example needs before a call. */
export interface Prepared {
  readonly databaseUrl: string
  readonly organizationId: string
  /** An API key with every scope. */
  readonly key: string
  drop(): Promise<void>
}

/** A fresh database with an API key. */
export async function prepareDatabase(): Promise<Prepared> {
  const database = await createTestDatabase()
  const organizationId = 'org_example'
  const { apiKeys } = createDeveloperSettings(createPostgresStore(database.sql()))
  const { key } = await apiKeys.create(organizationId, { name: 'Test', scopes: SCOPES })
  return { databaseUrl: database.url, organizationId, key, drop: database.drop }
}

/** A call of the API with a key, and with a JSON body, if given. */
export async function call(
  url: string,
  key: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(url, {
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body ? { 'Content-Type': 'application/json' } : {}),
      ...headers,
    },
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
  })
}

/** Calls every kind of operation of an API and provokes a few errors, as a first visitor would. */
export async function visit(baseUrl: string, key: string): Promise<void> {
  const clients = `${baseUrl}/api/v1/clients`
  const created = await call(clients, key, { name: 'Atlas Ceramics' }, { 'Idempotency-Key': 'visit' })
  assert.equal(created.status, 200, await created.clone().text())
  const text = await created.text()

  const replayed = await call(clients, key, { name: 'Atlas Ceramics' }, { 'Idempotency-Key': 'visit' })
  assert.equal(replayed.headers.get('idempotent-replayed'), 'true')
  assert.equal(await replayed.text(), text)

  const { data } = JSON.parse(text) as { data: { business: { id: string } } }
  const lead = await call(`${baseUrl}/api/v1/leads`, key, { businessId: data.business.id })
  assert.equal(lead.status, 200)

  const listed = await call(`${clients}?limit=1`, key)
  assert.equal(listed.status, 200)
  assert.deepEqual(await listed.json(), { data: [data] })

  await assertError(await fetch(clients), 401)
  await assertError(await call(clients, key, { name: 'A' }), 422)
  await assertError(await fetch(clients, { method: 'PUT' }), 405)

  const document = await fetch(`${baseUrl}/openapi.json`)
  assert.equal(document.status, 200)
  assert.equal(((await document.json()) as { openapi: string }).openapi.slice(0, 3), '3.1')
}

/** Holds an answer against the form of every error (specification, section 7). Returns the text of the error. */
export async function assertError(response: Response, status: number): Promise<string> {
  const text = await response.text()
  assert.equal(response.status, status, text)
  const body = JSON.parse(text) as { error: string; requestId: string }
  assert.deepEqual(Object.keys(body), ['error', 'requestId'])
  assert.equal(body.requestId, response.headers.get('x-request-id'))
  return body.error
}
