import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { LoggedRequest } from '../../lib/access/request-log.ts'
import { type BusinessApi, type BusinessApiOptions, createBusinessApi, Refusal } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { type Organization, type Platform, startPlatform } from './_api.ts'

describe('the requestLog option', () => {
  let platform: Platform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  const call = (api: BusinessApi, key: string, path = '/api/v1/clients', init: RequestInit = {}) =>
    api.fetch(
      new Request(`http://x${path}`, {
        ...init,
        headers: { Authorization: `Bearer ${key}`, ...init.headers },
      }),
    )

  async function logOf({ id }: Organization, api: BusinessApi): Promise<readonly LoggedRequest[]> {
    await api.requestLog.flush()
    return (await createDeveloperSettings(platform.store).requests.list(id)).data
  }

  test('logs every request of an organization without the query, body and key', async () => {
    const organization = await platform.organization()
    const api = platform.apiWith({ requestLog: 'all', basePath: '/mount' })
    const listed = await call(api, organization.key, '/mount/api/v1/clients?limit=5&x=secret-query')
    const body = JSON.stringify({ name: 'secret-body' })
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': 'secret-idempotency' }
    for (let time = 0; time < 2; time++)
      await call(api, organization.key, '/mount/api/v1/clients', { method: 'POST', body, headers })
    await call(api, organization.key, '/mount/api/v1/leads', {
      method: 'POST',
      body: '{}',
      headers: { 'Content-Type': 'application/json' },
    })
    const log = await logOf(organization, api)
    assert.deepEqual(
      log.map(({ method, route, path, status, isReplay }) => [method, route, path, status, isReplay]),
      [
        ['POST', '/api/v1/leads', '/mount/api/v1/leads', 422, false],
        ['POST', '/api/v1/clients', '/mount/api/v1/clients', 200, true],
        ['POST', '/api/v1/clients', '/mount/api/v1/clients', 200, false],
        ['GET', '/api/v1/clients', '/mount/api/v1/clients', 200, false],
      ],
    )
    assert.equal(log.at(-1)?.id, listed.headers.get('X-Request-Id'))
    assert.match(log[0]?.error ?? '', /businessId/)
    assert.ok(log.every(({ keyId, durationMs }) => keyId === organization.keyId && durationMs > 0))
    const rows = await platform.sql`select r::text as row from business_api.api_requests r`
    const text = JSON.stringify([log, rows])
    for (const secret of ['secret', organization.key, organization.key.slice(-20)])
      assert.ok(!text.includes(secret), secret)
  })

  test('logs the 401 of a revoked key, but not unknown keys, missing keys or unknown paths', async () => {
    const organization = await platform.organization()
    const { id: keyId, key } = await organization.createKey()
    const api = platform.apiWith({ requestLog: 'errors' })
    await createDeveloperSettings(platform.store).apiKeys.revoke(organization.id, keyId)
    for (let time = 0; time < 2; time++) assert.equal((await call(api, key)).status, 401)
    assert.equal((await call(api, organization.key)).status, 200)
    assert.equal((await call(api, organization.key, '/api/v1/nothing')).status, 404)
    assert.equal((await call(api, `${organization.key}x`)).status, 401)
    assert.equal((await api.fetch(new Request('http://x/api/v1/clients'))).status, 401)
    assert.equal((await call(api, organization.key, '/api/v1/clients', { method: 'DELETE' })).status, 405)
    const log = await logOf(organization, api)
    assert.deepEqual(
      log.map((one) => [one.keyId, one.method, one.status]),
      [
        [organization.keyId, 'DELETE', 405],
        [keyId, 'GET', 401],
        [keyId, 'GET', 401],
      ],
    )
    const [count] = await platform.sql`select count(*)::int from business_api.api_requests where status = 401`
    assert.equal(count?.count, 2)
  })

  test('logs a HEAD request, and an error message truncated within a character', async () => {
    const organization = await platform.organization()
    const error = `${'a'.repeat(199)}🏺`
    const api = platform.apiWith({ requestLog: 'all', onRequest: () => new Refusal(402, error) })
    for (const method of ['HEAD', 'GET']) await call(api, organization.key, '/api/v1/clients', { method })
    assert.deepEqual(
      (await logOf(organization, api)).map((one) => [one.method, one.status, one.error]),
      ['GET', 'HEAD'].map((method) => [method, 402, `${'a'.repeat(199)} `]),
    )
    assert.equal(api.requestLog.dropped, 0)
  })

  test('{ share: 0 } logs errors only, and without the option nothing is logged', async () => {
    const organization = await platform.organization()
    const share = platform.apiWith({ requestLog: { share: 0 } })
    const none = platform.apiWith({})
    for (const api of [share, none]) {
      await call(api, organization.key)
      await call(api, organization.key, '/api/v1/clients?limit=no')
    }
    await none.requestLog.flush()
    assert.deepEqual(
      (await logOf(organization, share)).map(({ status }) => status),
      [422],
    )
  })

  test('close() of the store waits for requests that are still to be logged', async () => {
    const organization = await platform.organization()
    const store = createPostgresStore(platform.databaseUrl)
    const api = createBusinessApi(store, { logger: false, requestLog: 'all' })
    await call(api, organization.key)
    await store.close()
    assert.equal((await logOf(organization, api)).length, 1)
    assert.equal(api.requestLog.dropped, 0)
  })

  test('requests are dropped and counted while the store accepts none, and no response waits for them', async () => {
    const store = createMemoryStore()
    const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', {
      name: 'k',
      scopes: ['clients:read'],
    })
    let end = (): void => {}
    const stuckWrite = new Promise<void>((_, reject) => {
      end = () => reject(new Error('down'))
    })
    const stuck = { ...store, requests: { ...store.requests, write: () => stuckWrite } }
    const api = createBusinessApi(stuck, { logger: false, requestLog: 'all', rateLimit: false })
    await call(api, key)
    const flushed = api.requestLog.flush()
    for (let count = 0; count < 10_050; count++) await call(api, key)
    assert.equal(api.requestLog.dropped, 50)
    end()
    await flushed
    assert.equal(api.requestLog.dropped, 10_051)
  })

  test('an invalid option is rejected', () => {
    const create = (requestLog: unknown) => () =>
      createBusinessApi(createMemoryStore(), { requestLog } as BusinessApiOptions)
    for (const wrong of ['some', true, null, {}, { share: 1.1 }, { share: -1 }, { share: Number.NaN }, [], 1])
      assert.throws(create(wrong), { name: 'TypeError', message: /Option 'requestLog' must be/ })
    assert.throws(create({ share: 1, sahre: 1 }), /requestLog\.sahre/)
  })
})
