import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { newEntry } from '../_audit.ts'
import {
  type Answer,
  assertError,
  buildRequest,
  comparable,
  listOf,
  rawHead,
  request,
  seedClients,
} from '../api/_api.ts'
import { api, BODY, bodyOf, key, MAX, PATH, platform, post, server } from './_bodies.ts'

describe('HEAD', () => {
  async function raw(method: 'GET' | 'HEAD', target: string, ...headers: string[]): Promise<Answer> {
    const connection = await server.connect()
    connection.send(rawHead(`${method} ${target}`, ...headers))
    const answer = await connection.answer(method === 'HEAD' ? 'HEAD' : undefined)
    // Nothing but the next response may follow.
    connection.send(rawHead('OPTIONS /openapi.json', 'Connection: close'))
    assert.equal((await connection.answer()).status, 204)
    await connection.closed
    return answer
  }

  const authorization = `Authorization: Bearer ${key}`
  const cases: [what: string, target: string, headers: string[]][] = [
    ['200', `${PATH}?limit=2`, [authorization]],
    ['401', PATH, []],
    ['404', '/nowhere', []],
    ['422', `${PATH}?limit=0`, [authorization]],
    ['200 for /openapi.json', '/openapi.json', []],
  ]
  for (const [what, target, headers] of cases) {
    test(`HEAD has the headers of GET and no body: ${what}`, async () => {
      const [get, head] = [await raw('GET', target, ...headers), await raw('HEAD', target, ...headers)]
      assert.equal(head.text, '')
      assert.notEqual(get.text, '')
      assert.deepEqual(comparable({ ...head, text: get.text }), comparable(get))
      assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(get.text)))
    })
  }

  test('HEAD has no body with a fetch handler either', async () => {
    const get = await request(api, PATH, { key })
    const head = await request(api, PATH, { key, method: 'HEAD' })
    assert.equal(head.text, '')
    assert.deepEqual(comparable({ ...head, text: get.text }), comparable(get))
  })

  test('HEAD requires the same key and scope as GET', async () => {
    const { createKey } = await platform.organization()
    const { key: other } = await createKey({ scopes: ['leads:read'] })
    assert.equal((await request(api, PATH, { key: other, method: 'HEAD' })).status, 403)
    assert.equal((await request(api, '/api/v1/leads', { key: other, method: 'HEAD' })).status, 200)
  })
})

describe('The order of checks', () => {
  const TINY = { rateLimit: { key: { perSecond: 0.01, burst: 1 } } }
  const limited = platform.apiWith(TINY)
  const tooLarge = bodyOf(MAX + 1)

  /** Creates a key with an empty bucket. */
  async function exhaustedKey(scopes: 'all' | 'none') {
    const organization = await platform.organization()
    const created = await organization.createKey(scopes === 'none' ? { scopes: [] } : {})
    await request(limited, PATH, { key: created.key })
    return { ...created, organizationId: organization.id }
  }

  async function keyWithoutScopes(): Promise<string> {
    return (await (await platform.organization()).createKey({ scopes: [] })).key
  }

  test('An unknown path is 404 before the key is checked', async () => {
    assertError(await request(api, '/api/v1/nothing'), 404)
    assertError(await request(api, '/api/v1/nothing', { key: 'bad' }), 404)
  })

  test('A wrong method is 405 before the key is checked', async () => {
    assertError(await request(api, PATH, { method: 'DELETE' }), 405)
    assertError(await request(api, '/api/v1/invoices', { method: 'POST', key: 'bad' }), 405)
  })

  test('401 comes before 429', async () => {
    const { id, key: exhausted, organizationId } = await exhaustedKey('all')
    assertError(await request(limited, PATH, { key: exhausted }), 429)
    await platform.store.apiKeys.revoke({ organizationId, keyId: id, entry: newEntry() })
    assertError(await request(limited, PATH, { key: exhausted }), 401)
  })

  test('401 comes before 415, 413, 400 and 422', async () => {
    for (const [body, contentType] of [
      [BODY, 'text/plain'],
      [tooLarge, 'application/json'],
      ['{', 'application/json'],
      ['{}', 'application/json'],
    ] as const) {
      const headers = { 'Content-Type': contentType }
      assertError(await request(api, PATH, { key: 'bad', body, headers }), 401)
    }
    assertError(await request(api, `${PATH}?limit=0`, { key: 'bad' }), 401)
    assertError(await request(api, `${PATH}?limit=0`), 401)
  })

  test('429 comes before 403', async () => {
    const { key: exhausted } = await exhaustedKey('none')
    assertError(await request(limited, PATH, { key: exhausted }), 429)
    assertError(await request(limited, PATH, { key: exhausted, json: { name: 'Atlas' } }), 429)
  })

  test('429 comes before 422 of a limit', async () => {
    const { key: exhausted } = await exhaustedKey('all')
    assertError(await request(limited, `${PATH}?limit=0`, { key: exhausted }), 429)
  })

  test('429 comes before 415, 413, 400 and 422', async () => {
    const { key: exhausted } = await exhaustedKey('all')
    for (const body of [tooLarge, '{', '{}']) {
      assertError(await request(limited, PATH, { key: exhausted, body }), 429)
    }
    const headers = { 'Content-Type': 'text/plain' }
    assertError(await request(limited, PATH, { key: exhausted, body: BODY, headers }), 429)
  })

  test('403 comes before 422 of a limit', async () => {
    assertError(await request(api, `${PATH}?limit=0`, { key: await keyWithoutScopes() }), 403)
  })

  test('403 comes before 415, 413, 400 and 422', async () => {
    const poor = await keyWithoutScopes()
    for (const body of [tooLarge, '{', '{}']) assertError(await request(api, PATH, { key: poor, body }), 403)
    const headers = { 'Content-Type': 'text/plain' }
    assertError(await request(api, PATH, { key: poor, body: BODY, headers }), 403)
    assertError(await request(api, PATH, { key: poor, body: BODY, headers: { 'Idempotency-Key': '' } }), 403)
  })

  test('415 comes before 413', async () => {
    assertError(await post(tooLarge, { 'Content-Type': 'text/plain' }), 415)
    assertError(await post(tooLarge, { 'Content-Encoding': 'gzip' }), 415)
  })

  test('413 comes before 400', async () => {
    assertError(await post(`{${'x'.repeat(MAX)}`), 413)
  })

  test('400 comes before 422', async () => {
    assertError(await post('{"name":"A"', { 'Idempotency-Key': '' }), 400)
  })

  test('422 comes before idempotency', async () => {
    const headers = { 'Idempotency-Key': 'order-1' }
    assert.equal((await post(BODY, headers)).status, 200)
    assertError(await post('{"name":"A"}', headers), 422, /name must be/)
  })

  test('Idempotency comes before 404', async () => {
    const organization = await platform.organization()
    const [client] = await seedClients(platform.store, organization.id, 1)
    const options = { key: organization.key, headers: { 'Idempotency-Key': 'order-2' } }
    const first = await request(api, '/api/v1/leads', {
      ...options,
      json: { businessId: client?.businessId },
    })
    assert.equal(first.status, 200)
    const other = await request(api, '/api/v1/leads', { ...options, json: { businessId: 'biz_unknown' } })
    assertError(other, 422, 'Idempotency-Key was already used with a different request body')
    assert.equal(listOf(await request(api, '/api/v1/leads', { key: organization.key })).length, 1)
  })

  test("The body isn't read before the request is admitted", async () => {
    const exhausted = await exhaustedKey('all')
    const cases: [
      status: number,
      caller: (request: Request) => Promise<Response>,
      key: string,
      type: string,
    ][] = [
      [401, api, 'bad', 'application/json'],
      [429, limited, exhausted.key, 'application/json'],
      [403, api, await keyWithoutScopes(), 'application/json'],
      [415, api, key, 'text/plain'],
    ]
    for (const [status, caller, presented, type] of cases) {
      const unread = buildRequest(PATH, { key: presented, body: BODY, headers: { 'Content-Type': type } })
      assert.equal((await caller(unread)).status, status)
      assert.equal(unread.bodyUsed, false)
    }
    const declared = buildRequest(PATH, { key, body: BODY, headers: { 'Content-Length': String(MAX + 1) } })
    assert.equal((await api(declared)).status, 413)
    assert.equal(declared.bodyUsed, false)
  })
})
