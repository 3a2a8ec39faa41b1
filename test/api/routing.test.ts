import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { after, describe, type TestContext, test } from 'node:test'
import { type BusinessApiOptions, createBusinessApi } from '../../lib/index.ts'
import {
  type Answer,
  assertError,
  assertSafeHeaders,
  buildRequest,
  comparable,
  idOf,
  OPERATIONS,
  rawHead,
  rawRequest,
  request,
  serve,
  startPlatform,
  type TestServer,
} from './_api.ts'

const platform = await startPlatform()
const api = platform.apiWith({ rateLimit: false })
const server = await serve((incoming, response) => api(incoming, response))
const { key } = await platform.organization()
after(async () => {
  await server.close()
  await platform.close()
})

const AUTHORIZATION = `Authorization: Bearer ${key}`
const PATHS = [...new Set(OPERATIONS.map(({ path }) => path))]

/** GET of a target exactly as written, with a good key. */
function get(target: string, to: TestServer = server, ...headers: string[]): Promise<Answer> {
  return rawRequest(to, rawHead(`GET ${target}`, AUTHORIZATION, ...headers))
}

describe('Paths', () => {
  for (const path of PATHS) {
    test(`${path} is served`, async () => {
      assert.equal((await get(path)).status, 200)
    })
  }

  test('/openapi.json is served without a key, also with a bad one', async () => {
    for (const headers of [{}, { Authorization: 'Bearer bad' }]) {
      const answer = await request(api, '/openapi.json', { headers })
      assert.equal(answer.status, 200)
      assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
      assert.equal(answer.headers.get('ratelimit'), null)
    }
  })

  const unknown = [
    '/',
    '/api',
    '/api/v1',
    '/api/v1/',
    '/api/v2/clients',
    '/api/v1/businesses',
    '/api/v1/clients/cli_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC',
    '/api/v1/client',
    '/api/v1/clientss',
    '/api/v1/clients.json',
    '/api/v1/clients;v=1',
    '/api/v1/clients%20',
    '/api/v1/clients%00',
    '/api/v1/clients%2F',
    '/api%2Fv1/clients',
    '/api/v1/client%73',
    '/API/V1/CLIENTS',
    '/openapi.yaml',
    '/openapiXjson',
    '/openapi',
    '/api/openapi.json',
    '/%zz',
    '/%',
    '/%ff',
    '/api/v1/%zz',
    '/api/v1/clients%zz',
    '/__proto__',
    '/constructor',
    '/api/v1/__proto__',
    '/x:y@evil.example/api/v1/clients',
    `/${'x'.repeat(8000)}`,
  ]
  for (const path of unknown) {
    test(`${path.slice(0, 60)} is 404 in the API's form`, async () => {
      const text = assertError(await get(path), 404)
      assert.ok(text.includes(path.slice(0, 100)), text.slice(0, 300))
    })
  }

  // A guard of the host or of a proxy before us sees the path as sent: it must mean the same to us as to them.
  const disguised = [
    '//evil/api/v1/clients',
    '//api/v1/clients',
    '///api/v1/clients',
    '/api//v1/clients',
    '/api/v1//clients',
    '/./api/v1/clients',
    '/api/v1/./clients',
    '/api/v1/../v1/clients',
    '/public/../api/v1/clients',
    '/api/v1/x/../clients',
    '/api/v1/clients/..',
    '/api/v1/clients/.',
    '/api/v1/leads/../clients',
    '/public/%2e%2e/api/v1/clients',
    '/public/%2E./api/v1/clients',
    '/api/v1/%2e/clients',
    '/api\\v1\\clients',
    '/api/v1/clients\\',
    '/x\\..\\api\\v1\\clients',
    '/public/../openapi.json',
  ]
  for (const path of disguised) {
    test(`${path} is 404: a path is taken as it was sent`, async () => {
      assertError(await get(path), 404)
    })
  }

  // RFC 9112, section 3.2.2: a server must accept it, though only proxies are sent it. The authority says nothing to us.
  for (const target of [
    'http://api.example/api/v1/clients',
    'http://evil.example/api/v1/clients',
    'https://evil.example:8443/api/v1/clients?limit=1',
    'HTTP://[::1]:80/api/v1/clients',
    'http://user:password@evil.example/api/v1/clients',
  ]) {
    test(`The absolute-form target ${target} is served by its path`, async () => {
      assert.equal((await get(target)).status, 200)
    })
  }

  for (const target of [
    'http://api.example',
    'http://api.example/',
    'http://api.example?x=/api/v1/clients',
    'http://api.example#/api/v1/clients',
    'http:///api/v1/clients',
    'http://api.example//api/v1/clients',
    'http://api.example/x/../api/v1/clients',
    'http://x/http://x/api/v1/clients',
    'http:/api/v1/clients',
    'ftp://api.example/api/v1/clients',
    'x:/api/v1/clients',
  ]) {
    test(`The absolute-form target ${target} is 404`, async () => {
      const answer = await get(target)
      // Node's parser refuses some by itself.
      if (answer.status !== 400) assertError(answer, 404)
    })
  }

  test('The authority of an absolute-form target is in no answer', async () => {
    const served = await get('http://evil.example/api/v1/clients?limit=1')
    const missing = await get('http://evil.example/nowhere')
    const described = await get('http://evil.example/openapi.json')
    for (const { text, headers } of [served, missing, described]) {
      assert.doesNotMatch(`${text}${JSON.stringify([...headers])}`, /evil/)
    }
    assert.match(assertError(missing, 404), /^No such path: \/nowhere /)
  })

  test('OPTIONS * is answered in the form of the API', async () => {
    assertError(await rawRequest(server, rawHead('OPTIONS *')), 404)
  })

  test('A slash at the end makes another path', async () => {
    for (const path of [...PATHS, '/openapi.json']) {
      assertError(await get(`${path}/`), 404, /^No such path/)
      assertError(await request(api, `${path}/`, { key }), 404, /^No such path/)
    }
    assertError(await get('/api/v1/clients/?limit=1'), 404)
    assertError(await get('/api/v1/clients//'), 404)
    assertError(await get('http://api.example/api/v1/clients/'), 404)
    const posted = await request(api, '/api/v1/clients/', { key, json: { name: 'Atlas' } })
    assertError(posted, 404)
  })

  test('A fragment that a client has sent along does not reach another path', async () => {
    assertError(await get('/nowhere#/api/v1/clients'), 404)
    assertError(await get('/nowhere?x=/api/v1/clients'), 404)
  })

  test('A 404 names the path that was seen and the basePath, but not the query', async () => {
    const mounted = platform.apiWith({ basePath: '/platform' })
    const text = assertError(await request(mounted, '/elsewhere/x?token=secret#secret'), 404)
    assert.ok(text.includes('/elsewhere/x'))
    assert.ok(text.includes('/platform'))
    assert.ok(!text.includes('secret'))
  })

  test('A 404 repeats a hostile path as JSON text of a bounded length', async () => {
    const answer = await get(`/<script>"\\${'x'.repeat(9000)}`)
    assertError(answer, 404)
    assert.ok(answer.text.length < 500)
  })
})

describe('Methods', () => {
  for (const path of PATHS) {
    const served = OPERATIONS.filter((operation) => operation.path === path).map(({ method }) => method)
    const allow = [...served, 'HEAD', 'OPTIONS'].join(', ')

    test(`OPTIONS ${path} answers 204 with Allow: ${allow}`, async () => {
      const answer = await rawRequest(server, rawHead(`OPTIONS ${path}`))
      assert.equal(answer.status, 204)
      assert.equal(answer.text, '')
      assert.equal(answer.headers.get('allow'), allow)
      assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
    })

    const refused = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'TRACE', 'QUERY'].filter(
      (method) => !served.some((each) => each === method),
    )
    for (const method of refused) {
      test(`${method} ${path} is 405 with Allow: ${allow}`, async () => {
        const answer = await rawRequest(server, rawHead(`${method} ${path}`, AUTHORIZATION))
        // Node's parser does not know every method; what it does not know never reaches a handler.
        if (method === 'QUERY' && answer.status === 400) return
        assertError(answer, 405)
        assert.equal(answer.headers.get('allow'), allow)
      })
    }
  }

  test('POST /openapi.json is 405, OPTIONS is 204', async () => {
    const refused = await request(api, '/openapi.json', { method: 'POST' })
    assertError(refused, 405)
    assert.equal(refused.headers.get('allow'), 'GET, HEAD, OPTIONS')
    const options = await request(api, '/openapi.json', { method: 'OPTIONS' })
    assert.equal(options.status, 204)
    assert.equal(options.headers.get('allow'), 'GET, HEAD, OPTIONS')
  })

  test('OPTIONS of an unknown path is 404', async () => {
    assertError(await request(api, '/api/v1/nothing', { method: 'OPTIONS' }), 404)
  })

  test('No answer carries CORS headers, whatever a browser asks', async () => {
    const headers = {
      Origin: 'https://evil.example',
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'authorization',
    }
    for (const method of ['OPTIONS', 'GET', 'POST', 'DELETE']) {
      const answer = await request(api, '/api/v1/clients', { method, headers, key })
      for (const [name] of answer.headers) assert.ok(!name.startsWith('access-control-'), name)
    }
  })
})

describe('Headers', () => {
  test('Hostile Host and X-Forwarded headers change nothing', async () => {
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

  test('Nothing in /openapi.json comes from the Host of a request', async () => {
    const bytes = (host: string) =>
      `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-Host: ${host}\r\n\r\n`
    const answer = await rawRequest(server, bytes('evil.example'))
    assert.equal(answer.status, 200)
    assert.ok(!answer.text.includes('evil.example'))
    assert.equal(answer.text, (await rawRequest(server, bytes('other.example'))).text)
  })

  test('A request id that came with the request is never adopted', async () => {
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

  test('Every request has an id of its own', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => request(api, '/api/v1/clients', { key })),
    )
    assert.equal(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size, 20)
  })

  test('Success and every refusal carry the request id and the safe headers', async () => {
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

  test('basePath is stripped from the path', async () => {
    assert.equal((await request(mounted, '/platform/api/v1/clients?limit=1', { key })).status, 200)
    assert.equal((await request(mounted, '/platform/openapi.json')).status, 200)
    assertError(await request(mounted, '/platform/api/v1/clients?limit=0', { key }), 422)
    assertError(await request(mounted, '/platform/api/v1/clients', { method: 'DELETE' }), 405)
  })

  test('basePath may have several segments and a slash at its end', async () => {
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
    test(`${path} is not ours under /platform`, async () => {
      const text = assertError(await request(mounted, path, { key }), 404)
      assert.ok(text.includes('/platform'))
    })
  }

  test('/platform/../api/v1/clients is not ours under /platform, nor is what only resolves to it', async (t) => {
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
    test(`createBusinessApi() refuses the basePath "${basePath}"`, () => {
      assert.throws(() => createBusinessApi(platform.store, { basePath }), TypeError)
    })
  }
})

describe('next', () => {
  /** A host that counts how often it was told to go on, and then answers itself. */
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

  test('next is called once, without an error, for a path that is none of ours', async (t) => {
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

  test('next is not called for ours, whatever becomes of it', async (t) => {
    const { own, nexts } = await serveHost(t)
    assert.equal((await get('/api/v1/clients', own)).status, 200)
    assertError(await get('/api/v1/clients?limit=0', own), 422)
    assertError(await rawRequest(own, rawHead('GET /api/v1/clients')), 401)
    assertError(await rawRequest(own, rawHead('DELETE /api/v1/clients')), 405)
    assert.equal((await rawRequest(own, rawHead('OPTIONS /api/v1/clients'))).status, 204)
    assert.deepEqual(nexts, [])
  })

  test('next is called for what is not below basePath', async (t) => {
    const { own, nexts } = await serveHost(t, { basePath: '/platform' })
    assert.equal((await get('/platform/api/v1/clients', own)).status, 200)
    assert.equal((await get('http://evil/platform/api/v1/clients', own)).status, 200)
    for (const path of ['http://evil/api/v1/clients', '/platformx/api/v1/clients', '/platform/other']) {
      assert.equal((await get(path, own)).status, 299)
    }
    assert.equal(nexts.length, 3)
  })

  test('next leaves the body to the host unread', async (t) => {
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

  test('originalUrl counts when basePath is set, as Express strips the mount path from url', async (t) => {
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

describe('The forms of a call', () => {
  const url = 'https://api.example/api/v1/clients'

  test('api has fewer than four parameters, so that Express does not take it for an error handler', () => {
    assert.ok(api.length < 4)
  })

  test('api(new Request()) answers a Response', async () => {
    const response = await api(buildRequest('/api/v1/clients', { key }))
    assert.ok(response instanceof Response)
    assert.equal(response.status, 200)
  })

  test('api.fetch answers a Response, also detached', async () => {
    const { fetch: detached } = api
    assert.equal((await detached(buildRequest('/api/v1/clients', { key }))).status, 200)
    assertError(await request(detached, '/nowhere'), 404)
  })

  test('api works detached from any this, and with a foreign one', async () => {
    const call: (request: Request) => Promise<Response> = api
    assert.equal((await call(buildRequest('/api/v1/clients', { key }))).status, 200)
    const holder = { handler: api, get: api.fetch }
    assert.equal((await holder.handler(buildRequest('/api/v1/clients', { key }))).status, 200)
    assert.equal((await holder.get(buildRequest('/api/v1/clients', { key }))).status, 200)
    const applied: unknown = await Reflect.apply(api, null, [buildRequest('/api/v1/clients', { key })])
    assert.ok(applied instanceof Response)
  })

  test('api(Request, { params }) answers a Response, as Next.js calls its route handlers', async () => {
    const context = { params: Promise.resolve({ path: ['v1', 'clients'] }) }
    for (const handler of [api, api.fetch]) {
      const answered: unknown = await Reflect.apply(handler, undefined, [new Request(url), context])
      assert.ok(answered instanceof Response)
      assert.equal(answered.status, 401)
    }
  })

  test('api(Request) sees a subclass of Request and a plain look-alike', async () => {
    class HostRequest extends Request {
      readonly cookies = new Map()
    }
    const headers = { Authorization: `Bearer ${key}` }
    assert.equal((await api(new HostRequest(url, { headers }))).status, 200)
  })

  test('api(req, res) resolves after it has answered', async (t) => {
    const own = await serve(async (incoming: IncomingMessage, response: ServerResponse) => {
      await api(incoming, response)
      assert.ok(response.headersSent)
    })
    t.after(() => own.close())
    assert.equal((await get('/api/v1/clients', own)).status, 200)
    assert.deepEqual(await Promise.all(own.calls), [undefined])
  })

  test('A header named get does not make a node request pass for a Request', async () => {
    assert.equal((await get('/api/v1/clients', server, 'Get: x')).status, 200)
  })

  test('A URL without a path, with credentials or a fragment is seen as fetch gives it', async () => {
    const headers = { Authorization: `Bearer ${key}` }
    assert.equal((await api(new Request('https://api.example'))).status, 404)
    assert.equal((await api(new Request(`${url}#fragment`, { headers }))).status, 200)
    assert.equal((await api(new Request(`${url}?limit=1#fragment`, { headers }))).status, 200)
    assert.equal((await api(new Request('https://api.example?x=/api/v1/clients', { headers }))).status, 404)
  })
})
