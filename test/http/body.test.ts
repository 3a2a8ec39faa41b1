import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { after, describe, type TestContext, test } from 'node:test'
import { type BusinessApiOptions, type BusinessApiStore, createBusinessApi } from '../../lib/index.ts'
import { newEntry } from '../_audit.ts'
import {
  type Answer,
  assertError,
  assertFields,
  buildRequest,
  comparable,
  type Failure,
  listOf,
  rawHead,
  rawRequest,
  record,
  recordOf,
  request,
  seedClients,
  serve,
  settle,
  startPlatform,
  type TestServer,
  watchStrays,
} from '../api/_api.ts'

const strays = watchStrays()
const platform = await startPlatform()
const api = platform.apiWith({ rateLimit: false })
const server = await serve((incoming, response) => api(incoming, response))
const { key } = await platform.organization()
after(async () => {
  await server.close()
  await platform.close()
  assert.deepEqual(strays, [])
})

const PATH = '/api/v1/clients'
const MAX = 65_536
const BODY = '{"name":"Atlas"}'

/** Starts a server for an API with options; ends with the test. */
async function serveWith(
  t: TestContext,
  options: BusinessApiOptions,
  store?: BusinessApiStore,
): Promise<TestServer> {
  const other = platform.apiWith({ rateLimit: false, ...options }, store)
  const own = await serve((incoming, response) => other(incoming, response))
  t.after(() => own.close())
  return own
}

function post(body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
  return request(api, PATH, { key, body, headers })
}

/** A body of an exact size in bytes, valid except for the size. */
function bodyOf(bytes: number): string {
  const start = '{"name":"Atlas","pad":"'
  return `${start}${'x'.repeat(bytes - start.length - 2)}"}`
}

function postHead(...headers: string[]): string {
  return rawHead(`POST ${PATH}`, `Authorization: Bearer ${key}`, 'Content-Type: application/json', ...headers)
}

/** A whole POST with a declared length. */
function rawPost(body: string, ...headers: string[]): string {
  return postHead(`Content-Length: ${Buffer.byteLength(body)}`, ...headers) + body
}

function chunk(data: string): string {
  return `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`
}

const LAST_CHUNK = '0\r\n\r\n'

describe('Content-Type', () => {
  for (const contentType of [
    'application/json',
    'APPLICATION/JSON',
    'application/json;',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json; Charset="UTF-8"',
    'application/json ; charset=utf-8 ; profile=x',
    'application/json; profile="https://x.example/y"',
  ]) {
    test(`POST /clients accepts Content-Type ${contentType}`, async () => {
      assert.equal((await post(BODY, { 'Content-Type': contentType })).status, 200)
    })
  }

  for (const contentType of [
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/vnd.api+json',
    'application/jsonx',
    'application',
    'application/json, application/json',
    '*/*',
    'json',
    '',
  ]) {
    test(`POST /clients answers 415 to Content-Type "${contentType}"`, async () => {
      assertError(await post(BODY, { 'Content-Type': contentType }), 415, /Content-Type/)
    })
  }

  for (const charset of ['latin1', 'iso-8859-1', 'utf-16', 'utf8', 'us-ascii', '"utf-16"', '']) {
    test(`POST /clients answers 415 to the charset ${charset || '(empty)'}`, async () => {
      const answer = await post(BODY, { 'Content-Type': `application/json; charset=${charset}` })
      assertError(answer, 415, /UTF-8/)
    })
  }

  test('POST /clients answers 415 to a body without a Content-Type', async () => {
    const head = rawHead(`POST ${PATH}`, `Authorization: Bearer ${key}`, `Content-Length: ${BODY.length}`)
    assertError(await rawRequest(server, head + BODY), 415, /Content-Type/)
  })

  test('POST /clients answers 415 to two Content-Type headers', async () => {
    assertError(await rawRequest(server, rawPost(BODY, 'Content-Type: text/plain')), 415)
    assertError(await rawRequest(server, rawPost(BODY, 'Content-Type: application/json')), 415)
  })

  for (const encoding of ['gzip', 'br', 'deflate', 'identity', 'x']) {
    test(`POST /clients answers 415 to Content-Encoding ${encoding}`, async () => {
      assertError(await post(BODY, { 'Content-Encoding': encoding }), 415, /Content-Encoding/)
    })
  }

  // RFC 9112, section 6.1: a coding that a server does not understand. Node refuses a coding that does not end in
  // "chunked".
  for (const [coding, status] of [
    ['gzip, chunked', 501],
    ['GZIP, Chunked', 501],
    ['identity, chunked', 501],
    [', chunked', 501],
    ['gzip', 400],
    ['identity', 400],
    ['chunked, gzip', 400],
    ['chunked, chunked', 400],
    ['xchunked', 400],
  ] as const) {
    test(`POST /clients answers ${status} to Transfer-Encoding "${coding}"`, async () => {
      const answer = await rawRequest(
        server,
        postHead(`Transfer-Encoding: ${coding}`) + chunk(BODY) + LAST_CHUNK,
      )
      if (status === 501) assertError(answer, 501, /Transfer-Encoding/)
      else assert.equal(answer.status, status)
    })
  }

  test('POST /clients answers 501 to a transfer coding in a separate header, and keeps the connection in step', async () => {
    const connection = await server.connect()
    const head = postHead('Transfer-Encoding: gzip', 'Transfer-Encoding: chunked')
    connection.send(head + chunk(BODY) + LAST_CHUNK)
    assertError(await connection.answer(), 501)
    connection.send(rawPost(BODY))
    assert.equal((await connection.answer()).status, 200)
    connection.socket.destroy()
  })

  test('POST /clients accepts Transfer-Encoding in any case', async () => {
    const answer = await rawRequest(server, postHead('Transfer-Encoding: CHUNKED') + chunk(BODY) + LAST_CHUNK)
    assert.equal(answer.status, 200)
  })

  test('GET /clients needs no Content-Type and ignores any', async () => {
    const headers = { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip', Accept: 'text/html' }
    assert.equal((await request(api, PATH, { key, headers })).status, 200)
  })
})

describe('A body that is not JSON', () => {
  const malformed: [what: string, body: string | Uint8Array][] = [
    ['an empty body', ''],
    ['white space', ' \r\n\t'],
    ['half an object', '{"name":"Atlas"'],
    ['something after the object', '{"name":"Atlas"}x'],
    ['two objects', '{"name":"Atlas"}{"name":"Atlas"}'],
    ['single quotes', "{'name':'Atlas'}"],
    ['a trailing comma', '{"name":"Atlas",}'],
    ['a comment', '{"name":"Atlas"/**/}'],
    ['a word', 'undefined'],
    ['NaN', '{"name":NaN}'],
    ['a form', 'name=Atlas'],
    ['a raw line feed in a string', '{"name":"At\nlas"}'],
    ['a raw NUL in a string', '{"name":"At\0las"}'],
    ['a NUL after the object', '{"name":"Atlas"}\0'],
    ['an incomplete escape', '{"name":"At\\u00"}'],
    ['invalid UTF-8', Buffer.concat([Buffer.from('{"name":"At'), Buffer.of(0xff), Buffer.from('las"}')])],
    [
      'a surrogate in UTF-8',
      Buffer.from('{"name":"At\u0001las"}'.replace('\u0001', '\xed\xa0\x80'), 'latin1'),
    ],
    ['an overlong slash in UTF-8', Buffer.from('{"name":"At\xc0\xaflas"}', 'latin1')],
    ['a character cut in two', Buffer.from('{"name":"Atlas é').subarray(0, -1)],
    ['Latin-1', Buffer.from('{"name":"Caf\xe9"}', 'latin1')],
    ['UTF-16', Buffer.from('\ufeff{"name":"Atlas"}', 'utf16le')],
    ['gzip', Buffer.from('1f8b0800000000000003', 'hex')],
  ]
  for (const [what, body] of malformed) {
    test(`POST /clients answers 400 to ${what}`, async () => {
      assertError(await post(body), 400, /^Request body is /)
    })
  }

  test('POST /clients answers 400 to no body at all', async () => {
    assertError(await rawRequest(server, postHead('Content-Length: 0')), 400, /empty/)
    assertError(await rawRequest(server, postHead()), 400, /empty/)
    assertError(await rawRequest(server, postHead('Transfer-Encoding: chunked') + LAST_CHUNK), 400, /empty/)
  })

  test('POST /clients ignores a byte order mark (RFC 8259, section 8.1, permits it)', async () => {
    assert.equal((await post(`\ufeff${BODY}`)).status, 200)
  })

  test('POST /clients ignores white space around the object', async () => {
    assert.equal((await post(`\r\n\t ${BODY} \n`)).status, 200)
  })

  test('POST /clients reads characters that arrive in pieces', async () => {
    const connection = await server.connect()
    const bytes = Buffer.from('{"name":"株式会社🏺"}')
    connection.send(postHead(`Content-Length: ${bytes.length}`))
    connection.socket.setNoDelay(true)
    for (const byte of bytes) {
      connection.send(Uint8Array.of(byte))
      await new Promise(setImmediate)
    }
    const { business } = recordOf(await connection.answer())
    assertFields(business)
    assert.equal(business.name, '株式会社🏺')
    connection.socket.destroy()
  })
})

describe('The size of a body', () => {
  test('POST /clients accepts exactly 65536 bytes', async () => {
    const body = bodyOf(MAX)
    assert.equal(Buffer.byteLength(body), MAX)
    assert.equal((await post(body)).status, 200)
    assert.equal((await rawRequest(server, rawPost(body))).status, 200)
    const chunked = postHead('Transfer-Encoding: chunked') + chunk(body) + LAST_CHUNK
    assert.equal((await rawRequest(server, chunked)).status, 200)
  })

  test('POST /clients answers 413 to 65537 bytes', async () => {
    assertError(await post(bodyOf(MAX + 1)), 413, /65536/)
  })

  test('POST /clients answers 413 by Content-Length before any of the body has come', async () => {
    const connection = await server.connect()
    connection.send(postHead(`Content-Length: ${MAX + 1}`))
    assertError(await connection.answer(), 413, /65536/)
    connection.socket.destroy()
  })

  test('POST /clients answers 413 while a chunked body is still coming', async () => {
    const connection = await server.connect()
    connection.send(postHead('Transfer-Encoding: chunked') + chunk(bodyOf(MAX + 1)))
    assertError(await connection.answer(), 413, /65536/)
    connection.socket.destroy()
  })

  test('POST /clients counts bytes, not characters', async () => {
    const body = bodyOf(MAX - 1).replace('"x', '"é')
    assert.equal(Buffer.byteLength(body), MAX)
    assert.equal((await post(body)).status, 200)
    assertError(await post(body.replace('"é', '"éé')), 413)
  })

  test('maxBodyBytes changes the limit', async () => {
    const small = platform.apiWith({ maxBodyBytes: BODY.length })
    assert.equal((await request(small, PATH, { key, body: BODY })).status, 200)
    const text = assertError(await request(small, PATH, { key, body: `${BODY} ` }), 413)
    assert.match(text, new RegExp(` ${BODY.length} bytes`))
  })
})

describe('A body without end', () => {
  test('A chunked body that stalls is answered at the deadline, and then the connection ends', async (t) => {
    const deadlineMs = 400
    const stalled = await serveWith(t, { deadlineMs })
    const connection = await stalled.connect()
    const begun = performance.now()
    connection.send(postHead('Transfer-Encoding: chunked') + chunk('{"name":"At'))
    const answer = await connection.answer()
    const took = performance.now() - begun
    assertError(answer, 503)
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    assert.ok(took > deadlineMs - 50 && took < deadlineMs + 1500, `answered after ${took} ms`)
    await connection.closed
    assert.ok(performance.now() - begun < 10_000)
  })

  test('A body that stalls before the declared length is answered at the deadline', async (t) => {
    const stalled = await serveWith(t, { deadlineMs: 200 })
    const connection = await stalled.connect()
    connection.send(`${postHead('Content-Length: 100')}{"name":"At`)
    assertError(await connection.answer(), 503)
    connection.socket.destroy()
  })

  test('A body that ends after the 503 creates nothing', async (t) => {
    const created: unknown[] = []
    const { clients } = platform.store
    const watched: BusinessApiStore = {
      ...platform.store,
      clients: {
        ...clients,
        create(creation) {
          created.push(creation.record)
          return clients.create(creation)
        },
      },
    }
    const stalled = await serveWith(t, { deadlineMs: 200 }, watched)
    const connection = await stalled.connect()
    connection.send(postHead('Transfer-Encoding: chunked') + chunk('{"name":'))
    assertError(await connection.answer(), 503)
    connection.send(chunk('"Atlas"}') + LAST_CHUNK)
    // The next request on the connection is not looked at before this body has ended.
    connection.send(rawHead('GET /nowhere'))
    assertError(await connection.answer(), 404)
    await settle()
    assert.deepEqual(created, [])
    connection.socket.destroy()
  })

  test('A chunked body without end is answered 413, and then the connection ends', async () => {
    const connection = await server.connect()
    connection.send(postHead('Transfer-Encoding: chunked'))
    const { socket } = connection
    const more = chunk('x'.repeat(16_000))
    let open = true
    void connection.closed.then(() => {
      open = false
    })
    const pouring = (async () => {
      while (open) {
        if (!socket.write(more))
          await Promise.race([once(socket, 'drain'), connection.closed]).catch(() => {})
      }
    })()
    assertError(await connection.answer(), 413)
    const answered = performance.now()
    await connection.closed
    await pouring
    assert.ok(performance.now() - answered < 10_000)
    assert.equal((await request(api, PATH, { key })).status, 200)
    socket.destroy()
  })

  test('A GET with a body that never ends is answered at once, and then the connection ends', async () => {
    const connection = await server.connect()
    connection.send(
      rawHead(`GET ${PATH}?limit=1`, `Authorization: Bearer ${key}`, 'Transfer-Encoding: chunked'),
    )
    assert.equal((await connection.answer()).status, 200)
    const answered = performance.now()
    await connection.closed
    assert.ok(performance.now() - answered < 10_000)
  })

  test('A stalled body of a request without a key is not waited for', async () => {
    const connection = await server.connect()
    const begun = performance.now()
    connection.send(`${rawHead(`POST ${PATH}`, 'Content-Type: application/json', 'Content-Length: 100')}{`)
    assertError(await connection.answer(), 401)
    assert.ok(performance.now() - begun < 1000)
    connection.socket.destroy()
  })
})

describe('A client that goes away', () => {
  /** A server with answers and failures that can be watched. */
  async function serveWatched(
    t: TestContext,
    options: BusinessApiOptions,
    store: BusinessApiStore = platform.store,
  ) {
    const failures: Failure[] = []
    const incoming: IncomingMessage[] = []
    const watched = createBusinessApi(store, {
      logger: false,
      rateLimit: false,
      onError: record(failures),
      ...options,
    })
    const own = await serve((message, response) => {
      incoming.push(message)
      return watched(message, response)
    })
    t.after(() => own.close())
    return { server: own, failures, incoming }
  }

  test('A client that goes away in the middle of the body harms no other request', async (t) => {
    const { server: own, failures } = await serveWatched(t, {})
    for (let round = 0; round < 5; round++) {
      const connection = await own.connect()
      connection.send(`${postHead('Content-Length: 1000')}{"name":`)
      while (own.calls.length <= round) await new Promise(setImmediate)
      connection.socket.destroy()
      await own.calls[round]
    }
    await settle()
    assert.deepEqual(failures, [])
    assert.deepEqual(strays, [])
    assert.equal((await rawRequest(own, rawPost(BODY))).status, 200)
  })

  test('A client that resets in the middle of a chunked body harms no other request', async (t) => {
    const { server: own, failures } = await serveWatched(t, {})
    const connection = await own.connect()
    connection.send(`${postHead('Transfer-Encoding: chunked')}ffff\r\n{"name":`)
    while (own.calls.length === 0) await new Promise(setImmediate)
    connection.socket.resetAndDestroy()
    await own.calls[0]
    await settle()
    assert.deepEqual(failures, [])
    assert.deepEqual(strays, [])
  })

  test('A client that goes away during admission is not waited for until the deadline', async (t) => {
    let judge = (): void => {}
    const judged = new Promise<void>((resolve) => {
      judge = resolve
    })
    const { apiKeys } = platform.store
    const slow: BusinessApiStore = {
      ...platform.store,
      apiKeys: {
        ...apiKeys,
        async admit(asked) {
          await judged
          return apiKeys.admit(asked)
        },
      },
    }
    const { server: own, failures, incoming } = await serveWatched(t, { deadlineMs: 2000 }, slow)
    const connection = await own.connect()
    connection.send(`${postHead('Content-Length: 1000')}{"name":`)
    while (incoming.length === 0) await new Promise(setImmediate)
    connection.socket.destroy()
    const [message] = incoming
    assert.ok(message)
    if (!message.closed) await once(message, 'close').catch(() => {})
    judge()
    await own.calls[0]
    assert.deepEqual(failures, [], 'what a client does is no failure of the store')
  })

  test('Broken chunks end only their connection', async () => {
    const connection = await server.connect()
    connection.send(`${postHead('Transfer-Encoding: chunked')}zz\r\n`)
    await connection.closed
    await settle()
    assert.deepEqual(strays, [])
    assert.equal((await request(api, PATH, { key })).status, 200)
  })
})

describe('A connection', () => {
  test('A connection serves a good request after a 401 with a large unread body', async () => {
    const connection = await server.connect()
    const large = 'x'.repeat(1_000_000)
    const good = rawHead(`GET ${PATH}?limit=1`, `Authorization: Bearer ${key}`)
    connection.send(
      rawHead(`POST ${PATH}`, 'Content-Type: application/json', `Content-Length: ${large.length}`) + large,
    )
    assertError(await connection.answer(), 401)
    connection.send(good)
    assert.equal((await connection.answer()).status, 200)
    connection.socket.destroy()
  })

  test('A connection serves a good request after each refusal that leaves a body unread', async () => {
    const connection = await server.connect()
    const body = '{"limit":"not read"}'.repeat(100)
    const length = `Content-Length: ${body.length}`
    const refused: [status: number, head: string][] = [
      [404, rawHead('POST /nowhere', length)],
      [405, rawHead(`PUT ${PATH}`, length)],
      [401, rawHead(`POST ${PATH}`, length)],
      [415, rawHead(`POST ${PATH}`, `Authorization: Bearer ${key}`, 'Content-Type: text/plain', length)],
      [422, rawHead(`GET ${PATH}?limit=0`, `Authorization: Bearer ${key}`, length)],
    ]
    for (const [status, head] of refused) {
      connection.send(head + body)
      assertError(await connection.answer(), status)
      connection.send(rawPost(BODY))
      assert.equal((await connection.answer()).status, 200)
    }
    connection.socket.destroy()
  })

  test('A connection serves a good request after a 413 with a whole body', async () => {
    const connection = await server.connect()
    connection.send(postHead('Transfer-Encoding: chunked') + chunk(bodyOf(200_000)) + LAST_CHUNK)
    assertError(await connection.answer(), 413)
    connection.send(rawPost(BODY))
    assert.equal((await connection.answer()).status, 200)
    connection.socket.destroy()
  })

  test('Pipelined requests are answered each in turn', async () => {
    const connection = await server.connect()
    connection.send(
      [
        rawHead(`GET ${PATH}?limit=1`, `Authorization: Bearer ${key}`),
        rawPost('{"name":"A"}'),
        rawHead('GET /nowhere'),
        rawHead(`OPTIONS ${PATH}`),
        rawPost(BODY),
        rawHead(`GET ${PATH}`),
      ].join(''),
    )
    const statuses: number[] = []
    for (let index = 0; index < 6; index++) statuses.push((await connection.answer()).status)
    assert.deepEqual(statuses, [200, 422, 404, 204, 200, 401])
    connection.socket.destroy()
  })

  test('Expect: 100-continue is invited to go on', async () => {
    const connection = await server.connect()
    connection.send(postHead(`Content-Length: ${BODY.length}`, 'Expect: 100-continue'))
    assert.equal((await connection.answer()).status, 100)
    connection.send(BODY)
    recordOf(await connection.answer())
    connection.socket.destroy()
  })

  test('A request of HTTP/1.0 is answered', async () => {
    const connection = await server.connect()
    connection.send(`GET ${PATH}?limit=1 HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n\r\n`)
    assert.equal((await connection.answer()).status, 200)
    await connection.closed
  })
})

describe('HEAD', () => {
  async function raw(method: 'GET' | 'HEAD', target: string, ...headers: string[]): Promise<Answer> {
    const connection = await server.connect()
    connection.send(rawHead(`${method} ${target}`, ...headers))
    const answer = await connection.answer(method === 'HEAD' ? 'HEAD' : undefined)
    // Nothing but the next answer may follow.
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

  test('HEAD of a fetch handler has no body either', async () => {
    const get = await request(api, PATH, { key })
    const head = await request(api, PATH, { key, method: 'HEAD' })
    assert.equal(head.text, '')
    assert.deepEqual(comparable({ ...head, text: get.text }), comparable(get))
  })

  test('HEAD needs the key and the scope of GET', async () => {
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

  /** A key with an empty bucket. */
  async function exhaustedKey(scopes: 'all' | 'none') {
    const organization = await platform.organization()
    const created = await organization.createKey(scopes === 'none' ? { scopes: [] } : {})
    await request(limited, PATH, { key: created.key })
    return { ...created, organizationId: organization.id }
  }

  async function keyWithoutScopes(): Promise<string> {
    return (await (await platform.organization()).createKey({ scopes: [] })).key
  }

  test('An unknown path is 404 before the key is looked at', async () => {
    assertError(await request(api, '/api/v1/nothing'), 404)
    assertError(await request(api, '/api/v1/nothing', { key: 'bad' }), 404)
  })

  test('A wrong method is 405 before the key is looked at', async () => {
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

  test('The body is not read before the admission', async () => {
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
