import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { named } from '../_service.ts'
import {
  type Answer,
  assertError,
  idOf,
  OPERATIONS,
  rawHead,
  rawRequest,
  request,
  seedClients,
} from './_api.ts'
import { AUTHORIZATION, api, get, key, PATHS, platform, server } from './_routing.ts'

describe('Paths', () => {
  for (const path of PATHS) {
    test(`${path} is served`, async () => {
      assert.equal((await get(path)).status, 200)
    })
  }

  test('/openapi.json is served without a key or with an invalid one', async () => {
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
    test(`${path.slice(0, 60)} is 404 in the API's format`, async () => {
      const text = assertError(await get(path), 404)
      assert.ok(text.includes(path.slice(0, 100)), text.slice(0, 300))
    })
  }

  // The host or a proxy may check the path as it was sent, so the API must not interpret it differently.
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
    test(`${path} is 404, because a path isn't normalized`, async () => {
      assertError(await get(path), 404)
    })
  }

  // RFC 9112, section 3.2.2: servers must accept the absolute form, even though clients only send it to proxies. We
  // ignore the authority.
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
      // Node's parser already rejects several of these targets.
      if (answer.status !== 400) assertError(answer, 404)
    })
  }

  test('The authority of an absolute-form target is never part of a response', async () => {
    const served = await get('http://evil.example/api/v1/clients?limit=1')
    const missing = await get('http://evil.example/nowhere')
    const described = await get('http://evil.example/openapi.json')
    for (const { text, headers } of [served, missing, described]) {
      assert.doesNotMatch(`${text}${JSON.stringify([...headers])}`, /evil/)
    }
    assert.match(assertError(missing, 404), /^No such path: \/nowhere$/)
  })

  test("OPTIONS * receives a response in the API's format", async () => {
    assertError(await rawRequest(server, rawHead('OPTIONS *')), 404)
  })

  test('A trailing slash is ignored with the trailingSlash option, and kept in the Link', async () => {
    const { id, key: own } = await platform.organization()
    await seedClients(platform.store, id, 3)
    for (const [baseUrl, link] of [
      [undefined, '../clients/?limit=2&'],
      ['https://app.example', 'https://app.example/api/v1/clients/?limit=2&'],
    ] as const) {
      const sliding = platform.apiWith({ trailingSlash: true }, named(platform.store, { baseUrl }))
      for (const path of [...PATHS, '/openapi.json']) {
        assert.equal((await request(sliding, `${path}/?x=1`, { key: own })).status, 200, path)
        assert.equal((await request(sliding, `${path}//`, { key: own })).status, 404, path)
      }
      const { headers } = await request(sliding, '/api/v1/clients/?limit=2', { key: own })
      assert.ok(headers.get('link')?.startsWith(`<${link}`), String(headers.get('link')))
      const bare = await request(sliding, '/api/v1/clients?limit=2&x=/', { key: own })
      assert.ok(bare.headers.get('link')?.includes('clients?limit=2&'))
    }
    assertError(await request(platform.apiWith({ trailingSlash: true }), '/', { key: own }), 404)
  })

  test('A trailing slash makes it a different path', async () => {
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

  test("A fragment in the target doesn't lead to a different path", async () => {
    assertError(await get('/nowhere#/api/v1/clients'), 404)
    assertError(await get('/nowhere?x=/api/v1/clients'), 404)
  })

  test('A 404 contains the requested path without the query string and basePath', async () => {
    const mounted = platform.apiWith({ basePath: '/platform' })
    const text = assertError(await request(mounted, '/elsewhere/x?token=secret#secret'), 404)
    assert.ok(text.includes('/elsewhere/x'))
    assert.ok(!text.includes('/platform'))
    assert.ok(!text.includes('secret'))
  })

  test('A 404 contains a malicious path as a JSON string of limited length', async () => {
    const answer = await get(`/<script>"\\${'x'.repeat(9000)}`)
    assertError(answer, 404)
    assert.ok(answer.text.length < 500)
  })
})

describe('Methods', () => {
  for (const path of PATHS) {
    const served = OPERATIONS.filter((operation) => operation.path === path).map(({ method }) => method)
    const allow = [...served, 'HEAD', 'OPTIONS'].join(', ')

    test(`OPTIONS ${path} responds with 204 and Allow: ${allow}`, async () => {
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
        // Node's parser doesn't know every method, and requests with an unknown one never reach a handler.
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

  test('/openapi.json can be read from other origins, unlike any other path', async () => {
    const origin = (answer: Answer): string | null => answer.headers.get('access-control-allow-origin')
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      assert.equal(origin(await request(api, '/openapi.json', { method })), '*')
    }
    assert.equal(origin(await request(api, '/api/v1/clients', { key })), null)
    assert.equal(origin(await request(api, '/api/v1/clients', { method: 'OPTIONS' })), null)
  })

  test('OPTIONS of an unknown path is 404', async () => {
    assertError(await request(api, '/api/v1/nothing', { method: 'OPTIONS' }), 404)
  })

  test('No other response has CORS headers, whatever a browser requests', async () => {
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
