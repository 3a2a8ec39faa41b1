import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'

// `beginRequest` throws if the store is closing and no longer accepts requests.

const store = {
  ...createMemoryStore(),
  beginRequest(): () => void {
    throw storeUnavailable('Cannot use the store because it is being closed')
  },
}
const api = createBusinessApi(store, { logger: false })
const { key } = await createDeveloperSettings(store).apiKeys.create('org_closing', {
  name: 'Website',
  scopes: ['clients:read'],
})

async function statusOf(method: string, path: string, headers: Record<string, string> = {}): Promise<number> {
  return (await api(new Request(`http://localhost${path}`, { method, headers }))).status
}

test('a request that needs the store is rejected with 503', async () => {
  assert.equal(await statusOf('GET', '/api/v1/clients', { authorization: `Bearer ${key}` }), 503)
})

test("routing and the OpenAPI document don't need the store", async () => {
  assert.equal(await statusOf('GET', '/openapi.json'), 200)
  assert.equal(await statusOf('GET', '/health'), 404)
  assert.equal(await statusOf('DELETE', '/api/v1/clients'), 405)
})
