import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { type BusinessApiOptions, type BusinessApiStore, createBusinessApi } from '../../lib/index.ts'
import {
  assertError,
  type Failure,
  rawHead,
  rawRequest,
  record,
  recordOf,
  request,
  serve,
} from '../api/_api.ts'
import { settle } from '../api/_strays.ts'
import {
  api,
  BODY,
  bodyOf,
  chunk,
  key,
  LAST_CHUNK,
  PATH,
  platform,
  postHead,
  rawPost,
  server,
  serveWith,
  strays,
} from './_bodies.ts'

const AUTHORIZATION = `Authorization: Bearer ${key}`

describe('An endless body', () => {
  test('If a chunked body stalls, the response is sent at the deadline and then the connection is closed', async (t) => {
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

  test('If a body stalls before its declared length, the response is sent at the deadline', async (t) => {
    const stalled = await serveWith(t, { deadlineMs: 200 })
    const connection = await stalled.connect()
    connection.send(`${postHead('Content-Length: 100')}{"name":"At`)
    assertError(await connection.answer(), 503)
    connection.socket.destroy()
  })

  test('A body that is completed after the 503 creates nothing', async (t) => {
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
    // The connection is closed at the end of the body.
    await connection.closed
    await settle()
    assert.deepEqual(created, [])
    connection.socket.destroy()
  })

  test('An endless chunked body receives a 413, and then the connection is closed', async () => {
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

  test('A GET with an endless body receives an immediate response, and then the connection is closed', async () => {
    const connection = await server.connect()
    connection.send(
      rawHead(`GET ${PATH}?limit=1`, `Authorization: Bearer ${key}`, 'Transfer-Encoding: chunked'),
    )
    assert.equal((await connection.answer()).status, 200)
    const answered = performance.now()
    await connection.closed
    assert.ok(performance.now() - answered < 10_000)
  })

  test('Over HTTP/2, an endless body receives an immediate response, and then only its stream is closed', async (t) => {
    const own = http2.createServer((incoming, response) => {
      void Reflect.apply(api, null, [incoming, response])
    })
    own.listen(0, '127.0.0.1')
    await once(own, 'listening')
    const session = http2.connect(`http://127.0.0.1:${(own.address() as AddressInfo).port}`)
    t.after(() => {
      session.destroy()
      own.close()
    })
    const call = { ':path': PATH, authorization: `Bearer ${key}` }
    const all = [call, { ...call, ':method': 'PUT' }, { ':path': PATH, ':method': 'POST' }]
    await Promise.all(
      all.map(async (headers) => {
        const endless = session.request(headers, { endStream: false })
        const pouring = setInterval(() => endless.writable && endless.write('x'), 20)
        await once(endless.resume(), 'close', { signal: AbortSignal.timeout(10_000) })
        clearInterval(pouring)
        assert.equal(endless.rstCode, http2.constants.NGHTTP2_NO_ERROR)
      }),
    )
    const [answered] = await once(session.request(call).resume(), 'response')
    assert.equal(answered[':status'], 200)
  })

  test("A stalled body isn't waited for if the request has no key", async () => {
    const connection = await server.connect()
    const begun = performance.now()
    connection.send(`${rawHead(`POST ${PATH}`, 'Content-Type: application/json', 'Content-Length: 100')}{`)
    assertError(await connection.answer(), 401)
    assert.ok(performance.now() - begun < 4000)
    connection.socket.destroy()
  })
})

describe('A client that disconnects', () => {
  /** Starts a server and collects its responses and failures. */
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

  test("A client that disconnects in the middle of the body doesn't affect other requests", async (t) => {
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

  test("A client that resets the connection in the middle of a chunked body doesn't affect other requests", async (t) => {
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

  test("A client that disconnects during admission isn't waited for until the deadline", async (t) => {
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

  test('Invalid chunks only close their own connection', async () => {
    const connection = await server.connect()
    connection.send(`${postHead('Transfer-Encoding: chunked')}zz\r\n`)
    await connection.closed
    await settle()
    assert.deepEqual(strays, [])
    assert.equal((await request(api, PATH, { key })).status, 200)
  })
})

describe('A connection', () => {
  // Otherwise a proxy could send another request after a body that never ends.
  for (const [status, name, head, body] of [
    [401, 'no key', rawHead(`POST ${PATH}`, 'Content-Length: 1000000'), 'x'.repeat(1_000_000)],
    [401, 'no key, and chunks', rawHead(`POST ${PATH}`, 'Transfer-Encoding: chunked'), LAST_CHUNK],
    [404, 'an unknown path', rawHead('POST /nowhere', 'Content-Length: 9'), '{"a":"b"}'],
    [405, 'a wrong method', rawHead(`PUT ${PATH}`, 'Content-Length: 9'), '{"a":"b"}'],
    [413, 'a declared length', postHead('Content-Length: 1000000'), 'x'.repeat(1_000_000)],
    [413, 'chunks', postHead('Transfer-Encoding: chunked') + chunk(bodyOf(200_000)), LAST_CHUNK],
    [415, 'no media type', rawHead(`POST ${PATH}`, AUTHORIZATION, 'Content-Length: 9'), '{"a":"b"}'],
    [200, 'a GET', rawHead(`GET ${PATH}`, AUTHORIZATION, 'Content-Length: 9'), '{"a":"b"}'],
  ] as const) {
    test(`A response ${status} (${name}) before the end of the body has Connection: close, and the connection is closed with the body`, async () => {
      const connection = await server.connect()
      connection.send(head)
      const answer = await connection.answer()
      assert.equal(answer.status, status, answer.text)
      assert.equal(answer.headers.get('connection'), 'close')
      const answeredAt = performance.now()
      connection.send(body)
      await connection.closed
      assert.ok(performance.now() - answeredAt < 1900, 'the body had ended')
    })
  }

  test('A HEAD with an endless body has Connection: close', async () => {
    const connection = await server.connect()
    connection.send(rawHead(`HEAD ${PATH}`, AUTHORIZATION, 'Transfer-Encoding: chunked'))
    const { status, headers } = await connection.answer('HEAD')
    assert.deepEqual([status, headers.get('connection')], [200, 'close'])
    await connection.closed
  })

  test("A connection can be used after each rejection that doesn't read the body", async () => {
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

  test('Pipelined requests receive their responses in order', async () => {
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

  test('Expect: 100-continue receives a 100 response', async () => {
    const connection = await server.connect()
    connection.send(postHead(`Content-Length: ${BODY.length}`, 'Expect: 100-continue'))
    assert.equal((await connection.answer()).status, 100)
    connection.send(BODY)
    recordOf(await connection.answer())
    connection.socket.destroy()
  })

  test('An HTTP/1.0 request receives a response', async () => {
    const connection = await server.connect()
    connection.send(`GET ${PATH}?limit=1 HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n\r\n`)
    assert.equal((await connection.answer()).status, 200)
    await connection.closed
  })
})
