import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { type BusinessApiOptions, createBusinessApi } from '../../lib/index.ts'
import {
  type Answer,
  assertError,
  assertSafeHeaders,
  buildRequest,
  comparable,
  idOf,
  rawHead,
  rawRequest,
  request,
  serve,
} from './_api.ts'
import { AUTHORIZATION, api, get, key, platform, server } from './_routing.ts'

describe('Headers', () => {
  test('Malicious Host and X-Forwarded headers change nothing', async () => {
    const plain = await get('/api/v1/clients')
    for (const hostile of [
      'X-Forwarded-Host: evil.example',
      'X-Forwarded-Proto: gopher',
      'X-Forwarded-For: 127.0.0.1',
      'X-Forwarded-Prefix: /platform',
      'X-Original-URL: /api/v1/leads',
      'X-Rewrite-URL: /api/v1/leads',
      'X-HTTP-Method-Override: DELETE',
      'Forwarded: host=evil.example;proto=https',
      'X-Organization-Id: org_1',
    ]) {
      assert.deepEqual(comparable(await get('/api/v1/clients', server, hostile)), comparable(plain))
    }
    const bytes = `GET /api/v1/clients HTTP/1.1\r\nHost: evil.example/x?y#z@w:99999\r\n${AUTHORIZATION}\r\n\r\n`
    assert.deepEqual(comparable(await rawRequest(server, bytes)), comparable(plain))
  })

  test('Nothing in /openapi.json depends on the Host header', async () => {
    const bytes = (host: string) =>
      `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-Host: ${host}\r\n\r\n`
    const answer = await rawRequest(server, bytes('evil.example'))
    assert.equal(answer.status, 200)
    assert.ok(!answer.text.includes('evil.example'))
    assert.equal(answer.text, (await rawRequest(server, bytes('other.example'))).text)
  })

  test('A request id sent by the caller is never used', async () => {
    for (const target of ['/api/v1/clients', '/api/v1/clients?limit=0', '/nowhere', '/openapi.json']) {
      const answer = await get(
        target,
        server,
        'X-Request-Id: req_01KHOSTCHOSENTHSONEABCDEFG',
        'X-Correlation-Id: x',
      )
      assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
      assert.ok(!`${answer.headers.get('x-request-id')}${answer.text}`.includes('01KHOSTCHOSENTHSONEABCDEFG'))
    }
  })

  test('Every request has a different id', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => request(api, '/api/v1/clients', { key })),
    )
    assert.equal(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size, 20)
  })

  test('Successful responses and rejections all have the request id and the security headers', async () => {
    const scopeless = (await (await platform.organization()).createKey({ scopes: [] })).key
    const strict = platform.apiWith({ rateLimit: { key: { perSecond: 0.01, burst: 1 } } })
    const exhausted = (await platform.organization()).key
    await request(strict, '/api/v1/clients', { key: exhausted })
    const answers: [status: number, answer: Answer][] = [
      [401, await request(api, '/api/v1/clients')],
      [403, await request(api, '/api/v1/clients', { key: scopeless })],
      [404, await request(api, '/nowhere')],
      [405, await request(api, '/api/v1/clients', { method: 'PUT' })],
      [400, await request(api, '/api/v1/clients', { key, body: '{' })],
      [413, await request(api, '/api/v1/clients', { key, body: ' '.repeat(65_537) })],
      [
        415,
        await request(api, '/api/v1/clients', { key, body: '{}', headers: { 'Content-Type': 'text/plain' } }),
      ],
      [422, await request(api, '/api/v1/clients', { key, body: '{}' })],
      [429, await request(strict, '/api/v1/clients', { key: exhausted })],
    ]
    for (const [status, answer] of answers) assertError(answer, status)
    for (const answer of [
      await request(api, '/api/v1/clients', { key }),
      await request(api, '/api/v1/clients', { key, json: { name: 'Atlas' } }),
    ]) {
      assert.equal(answer.status, 200)
      assertSafeHeaders(answer)
      assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
    }
  })
})

describe('basePath', () => {
  const mounted = platform.apiWith({ basePath: '/platform' })

  test('basePath is removed from the path', async () => {
    assert.equal((await request(mounted, '/platform/api/v1/clients?limit=1', { key })).status, 200)
    assert.equal((await request(mounted, '/platform/openapi.json')).status, 200)
    assertError(await request(mounted, '/platform/api/v1/clients?limit=0', { key }), 422)
    assertError(await request(mounted, '/platform/api/v1/clients', { method: 'DELETE' }), 405)
  })

  test('basePath can have several segments and a trailing slash', async () => {
    for (const basePath of ['/a/b-c/d.e', '/a/b-c/d.e/']) {
      const deep = platform.apiWith({ basePath })
      assert.equal((await request(deep, '/a/b-c/d.e/api/v1/clients', { key })).status, 200)
      assertError(await request(deep, '/a/b-c/dxe/api/v1/clients', { key }), 404)
    }
  })

  for (const path of [
    '/api/v1/clients',
    '/platformx/api/v1/clients',
    '/platform',
    '/platform/',
    '/platformapi/v1/clients',
    '/Platform/api/v1/clients',
    '/x/platform/api/v1/clients',
    '/platform/platform/api/v1/clients',
    '/platform%2Fapi/v1/clients',
    '//platform/api/v1/clients',
  ]) {
    test(`${path} isn't ours under /platform`, async () => {
      assertError(await request(mounted, path, { key }), 404, `No such path: ${path}`)
    })
  }

  test("/platform/../api/v1/clients isn't a path of the API under /platform, nor is any other path that resolves to the API", async (t) => {
    const own = await serve((incoming, response) => mounted(incoming, response))
    t.after(() => own.close())
    for (const path of [
      '/platform/../api/v1/clients',
      '/platform/../../api/v1/clients',
      '/x/../platform/api/v1/clients',
      '/platform/%2e%2e/api/v1/clients',
      '/platform/x/../api/v1/clients',
      '/platform\\api/v1/clients',
    ]) {
      assertError(await get(path, own), 404)
    }
  })

  for (const basePath of ['platform', '/plat form', '/a//b', '/a?b', '/a#b', '/ä', '/a%20b', '/:id', '/*']) {
    test(`createBusinessApi() rejects the basePath "${basePath}"`, () => {
      assert.throws(() => createBusinessApi(platform.store, { basePath }), TypeError)
    })
  }
})

describe('next', () => {
  /** Starts a host that counts the calls to next() and then responds itself. */
  async function serveHost(
    t: TestContext,
    options: BusinessApiOptions = {},
    change?: (seen: IncomingMessage) => void,
  ) {
    const mounted = platform.apiWith(options)
    const nexts: unknown[][] = []
    const own = await serve((incoming, response) => {
      change?.(incoming)
      return mounted(incoming, response, (...args) => {
        nexts.push(args)
        response.writeHead(299, { 'Content-Length': '4' }).end('host')
      })
    })
    t.after(() => own.close())
    return { own, nexts }
  }

  test('next is called once without an error for a path outside the API', async (t) => {
    const { own, nexts } = await serveHost(t)
    const foreign = [
      '/',
      '/other',
      '/api/v1/other',
      '//evil/api/v1/clients',
      '/%zz',
      '/api/v1/clients/',
      'http://evil/other',
    ]
    for (const path of foreign) {
      const answer = await get(path, own)
      assert.equal(answer.status, 299)
      assert.equal(answer.text, 'host')
      assert.equal(answer.headers.get('x-request-id'), null)
    }
    assert.deepEqual(
      nexts,
      foreign.map(() => []),
    )
  })

  test('next is never called for a path of the API, whatever the response', async (t) => {
    const { own, nexts } = await serveHost(t)
    assert.equal((await get('/api/v1/clients', own)).status, 200)
    assertError(await get('/api/v1/clients?limit=0', own), 422)
    assertError(await rawRequest(own, rawHead('GET /api/v1/clients')), 401)
    assertError(await rawRequest(own, rawHead('DELETE /api/v1/clients')), 405)
    assert.equal((await rawRequest(own, rawHead('OPTIONS /api/v1/clients'))).status, 204)
    assert.deepEqual(nexts, [])
  })

  test("next is called for a path that isn't below basePath", async (t) => {
    const { own, nexts } = await serveHost(t, { basePath: '/platform' })
    assert.equal((await get('/platform/api/v1/clients', own)).status, 200)
    assert.equal((await get('http://evil/platform/api/v1/clients', own)).status, 200)
    for (const path of ['http://evil/api/v1/clients', '/platformx/api/v1/clients', '/platform/other']) {
      assert.equal((await get(path, own)).status, 299)
    }
    assert.equal(nexts.length, 3)
  })

  test("next doesn't read the body", async (t) => {
    const mounted = platform.apiWith({})
    const own = await serve((incoming, response) =>
      mounted(incoming, response, async () => {
        let body = ''
        for await (const part of incoming) body += part
        response.end(body, () => {})
      }),
    )
    t.after(() => own.close())
    const response = await fetch(`${own.url}/host`, { method: 'POST', body: 'for the host' })
    assert.equal(await response.text(), 'for the host')
  })

  test('originalUrl is used if basePath is set, because Express removes the mount path from url', async (t) => {
    const strip = (seen: IncomingMessage) => {
      const original = seen.url ?? ''
      Object.assign(seen, { originalUrl: original, url: original.replace(/^\/platform/, '') || '/' })
    }
    const { own } = await serveHost(t, { basePath: '/platform' }, strip)
    assert.equal((await get('/platform/api/v1/clients', own)).status, 200)
    assert.equal((await get('/api/v1/clients', own)).status, 299)
    const { own: withoutBasePath } = await serveHost(t, {}, strip)
    assert.equal((await get('/platform/api/v1/clients', withoutBasePath)).status, 200)
    assert.equal((await get('/api/v1/clients', withoutBasePath)).status, 200)
  })
})

describe('Ways to call the handler', () => {
  const url = 'https://api.example/api/v1/clients'

  test('api has fewer than four parameters, because Express treats functions with four as error handlers', () => {
    assert.ok(api.length < 4)
  })

  test('api(new Request()) returns a Response', async () => {
    const response = await api(buildRequest('/api/v1/clients', { key }))
    assert.ok(response instanceof Response)
    assert.equal(response.status, 200)
  })

  test('api.fetch returns a Response even if detached', async () => {
    const { fetch: detached } = api
    assert.equal((await detached(buildRequest('/api/v1/clients', { key }))).status, 200)
    assertError(await request(detached, '/nowhere'), 404)
  })

  test('api works without `this` or with a different `this`', async () => {
    const call: (request: Request) => Promise<Response> = api
    assert.equal((await call(buildRequest('/api/v1/clients', { key }))).status, 200)
    const holder = { handler: api, get: api.fetch }
    assert.equal((await holder.handler(buildRequest('/api/v1/clients', { key }))).status, 200)
    assert.equal((await holder.get(buildRequest('/api/v1/clients', { key }))).status, 200)
    const applied: unknown = await Reflect.apply(api, null, [buildRequest('/api/v1/clients', { key })])
    assert.ok(applied instanceof Response)
  })

  test('api(Request, { params }) returns a Response, as Next.js calls its route handlers', async () => {
    const context = { params: Promise.resolve({ path: ['v1', 'clients'] }) }
    for (const handler of [api, api.fetch]) {
      const answered: unknown = await Reflect.apply(handler, undefined, [new Request(url), context])
      assert.ok(answered instanceof Response)
      assert.equal(answered.status, 401)
    }
  })

  test('api(Request) accepts a subclass of Request and a plain object with the same shape', async () => {
    class HostRequest extends Request {
      readonly cookies = new Map()
    }
    const headers = { Authorization: `Bearer ${key}` }
    assert.equal((await api(new HostRequest(url, { headers }))).status, 200)
  })

  test('api(req, res) resolves after it has responded', async (t) => {
    const own = await serve(async (incoming: IncomingMessage, response: ServerResponse) => {
      await api(incoming, response)
      assert.ok(response.headersSent)
    })
    t.after(() => own.close())
    assert.equal((await get('/api/v1/clients', own)).status, 200)
    assert.deepEqual(await Promise.all(own.calls), [undefined])
  })

  test("A node request with a header named get isn't treated as a Request", async () => {
    assert.equal((await get('/api/v1/clients', server, 'Get: x')).status, 200)
  })

  test('A URL without a path, or with credentials or a fragment, is read as given by fetch', async () => {
    const headers = { Authorization: `Bearer ${key}` }
    assert.equal((await api(new Request('https://api.example'))).status, 404)
    assert.equal((await api(new Request(`${url}#fragment`, { headers }))).status, 200)
    assert.equal((await api(new Request(`${url}?limit=1#fragment`, { headers }))).status, 200)
    assert.equal((await api(new Request('https://api.example?x=/api/v1/clients', { headers }))).status, 404)
  })
})
