import assert from 'node:assert/strict'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { after, describe, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import express5 from 'express'
import type { BusinessApi, BusinessApiOptions, FetchBody } from '../../lib/index.ts'
import {
  type Answer,
  assertError,
  assertFields,
  type Failure,
  rawHead,
  rawRequest,
  record,
  recordOf,
  serve,
  settle,
  startPlatform,
  type TestServer,
  watchStrays,
} from '../api/_api.ts'

const strays = watchStrays()
const platform = await startPlatform()
const { key } = await platform.organization()
after(async () => {
  await platform.close()
  assert.deepEqual(strays, [])
})

// Express 4 has the interface of 5 as far as these tests go, and no types of its own here.
const express4 = createRequire(import.meta.url)('express4') as typeof express5

const PATH = '/api/v1/clients'
const BODY = '{"name":"Atlas 🏺"}'

async function listen(t: TestContext, listener: RequestListener): Promise<TestServer> {
  const server = await serve(listener)
  t.after(() => server.close())
  return server
}

/** An API of the default options but for its limits, and what its onError hears. */
function watched(options: BusinessApiOptions = {}): { api: BusinessApi; failures: Failure[] } {
  const failures: Failure[] = []
  return { api: platform.apiWith({ rateLimit: false, onError: record(failures), ...options }), failures }
}

function post(server: TestServer, body: string | Uint8Array = BODY, ...headers: string[]): Promise<Answer> {
  return postTo(server, PATH, body, ...headers)
}

function postTo(
  server: TestServer,
  path: string,
  body: string | Uint8Array,
  ...headers: string[]
): Promise<Answer> {
  const bytes = Buffer.from(body)
  const type = headers.some((header) => /^content-type:/i.test(header))
    ? []
    : ['Content-Type: application/json']
  const head = rawHead(
    `POST ${path}`,
    `Authorization: Bearer ${key}`,
    `Content-Length: ${bytes.length}`,
    ...type,
    ...headers,
  )
  return rawRequest(server, Buffer.concat([Buffer.from(head), bytes]))
}

/** A whole POST whose length is not declared. */
function chunkedPost(body: string, path: string = PATH): string {
  const head = rawHead(
    `POST ${path}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  )
  return `${head}${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`
}

function get(server: TestServer, path: string = PATH): Promise<Answer> {
  return rawRequest(server, rawHead(`GET ${path}`, `Authorization: Bearer ${key}`))
}

function assertCreated(answer: Answer, name = 'Atlas 🏺'): void {
  const { business } = recordOf(answer)
  assertFields(business)
  assert.equal(business.name, name)
}

for (const [version, express] of [
  ['Express 4', express4],
  ['Express 5', express5],
] as const) {
  describe(version, () => {
    test(`${version}: app.use(api) serves, and leaves the rest to the host`, async (t) => {
      const app = express()
      app.use(watched().api)
      app.get('/host', (_, response) => void response.send('host'))
      const server = await listen(t, app)
      assertCreated(await post(server))
      assert.equal((await get(server)).status, 200)
      assert.equal((await get(server, '/host')).text, 'host')
      const missing = await get(server, '/missing')
      assert.equal(missing.status, 404)
      assert.match(missing.text, /Cannot GET \/missing/)
    })

    test(`${version}: app.use('/platform', api) serves below its mount path, with and without basePath`, async (t) => {
      for (const options of [{}, { basePath: '/platform' }]) {
        const app = express()
        app.use('/platform', watched(options).api)
        const server = await listen(t, app)
        assertCreated(await postTo(server, `/platform${PATH}`, BODY))
        assert.equal((await get(server, `/platform${PATH}?limit=1`)).status, 200)
        assert.match((await get(server, PATH)).text, /Cannot GET/)
        assert.match((await get(server, '/platform/missing')).text, /Cannot GET/)
        assert.match((await get(server, `/platformx${PATH}`)).text, /Cannot GET/)
      }
    })

    test(`${version}: a path with a slash at its end is the host's, an absolute-form target is ours`, async (t) => {
      for (const options of [{}, { basePath: '/platform' }]) {
        const app = express()
        app.use('/platform', watched(options).api)
        const server = await listen(t, app)
        assert.match((await get(server, `/platform${PATH}/`)).text, /Cannot GET/)
        assert.match((await postTo(server, `/platform${PATH}/`, BODY)).text, /Cannot POST/)
        assert.equal((await get(server, `http://evil.example/platform${PATH}`)).status, 200)
      }
    })

    test(`${version}: a router below a router serves with the full basePath`, async (t) => {
      const app = express()
      const router = express.Router()
      router.use('/inner', watched({ basePath: '/outer/inner' }).api)
      app.use('/outer', router)
      const server = await listen(t, app)
      assert.equal((await get(server, `/outer/inner${PATH}`)).status, 200)
      assert.match((await get(server, `/outer${PATH}`)).text, /Cannot GET/)
    })

    test(`${version}: express.json() before us has parsed the body`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      const server = await listen(t, app)
      assertCreated(await post(server))
      assertError(await post(server, '{"name":"A"}'), 422, /name must be/)
      assertError(await post(server, '{"name":"a\\u0000b"}'), 422, /name must/)
      assertError(await post(server, '[]'), 422, /must be a JSON object/)
      assertError(await post(server, BODY, 'Content-Type: text/plain'), 415)
    })

    test(`${version}: an empty body is 400 also after express.json(), which makes {} of it`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      assertError(await post(await listen(t, app), ''), 400, /empty/)
    })

    test(`${version}: a replay after express.json() is the same`, async (t) => {
      const app = express()
      const { api } = watched()
      app.use('/parsed', express.json(), api)
      app.use('/raw', api)
      const server = await listen(t, app)
      const header = `Idempotency-Key: ${version.replace(' ', '-')}`
      const first = await postTo(server, `/parsed${PATH}`, BODY, header)
      const second = await postTo(server, `/raw${PATH}`, BODY, header)
      assertCreated(first)
      assert.equal(second.text, first.text)
      assert.equal(second.headers.get('idempotent-replayed'), 'true')
    })

    test(`${version}: express.json() after us still parses what is the host's`, async (t) => {
      const app = express()
      app.use(watched().api)
      app.use(express.json())
      app.post('/host', (incoming, response) => void response.json({ heard: incoming.body }))
      const server = await listen(t, app)
      assertCreated(await post(server))
      assert.equal((await postTo(server, '/host', BODY)).text, '{"heard":{"name":"Atlas 🏺"}}')
    })

    test(`${version}: express.text() and express.raw() before us have kept the body as it was`, async (t) => {
      for (const parser of [express.text({ type: () => true }), express.raw({ type: () => true })]) {
        const app = express()
        app.use(parser)
        app.use(watched().api)
        const server = await listen(t, app)
        assertCreated(await post(server))
        assertError(await post(server, '{"name"'), 400, /not valid JSON/)
      }
    })

    test(`${version}: a JSON string is a value after express.json({ strict: false }), and not decoded again`, async (t) => {
      const app = express()
      app.use(express.json({ strict: false }))
      app.use(watched().api)
      const server = await listen(t, app)
      for (const text of [BODY, '{"name":"Atlas \u0041"}', '', '[]']) {
        const answer = await post(server, JSON.stringify(text))
        assertError(answer, 422, /must be a JSON object/)
        assertError(await post(server, ` ${JSON.stringify(text)}\n`), 422, /must be a JSON object/)
        const chunked = await rawRequest(server, chunkedPost(JSON.stringify(text)))
        assertError(chunked, 422, /must be a JSON object/)
      }
      for (const json of ['7', 'null', 'true', '[{}]']) assertError(await post(server, json), 422)
      assertCreated(await post(server))
    })

    test(`${version}: text of a length that nothing declares counts as a value, unless rawBody is it`, async (t) => {
      const { api } = watched()
      const app = express()
      app.use(express.text({ type: () => true }))
      const keep: express5.RequestHandler = (incoming, _, next) => {
        Object.assign(incoming, { rawBody: incoming.body })
        next()
      }
      app.use('/kept', keep, api)
      app.use(api)
      const server = await listen(t, app)
      assertError(await rawRequest(server, chunkedPost(BODY)), 422, /must be a JSON object/)
      assertCreated(await rawRequest(server, chunkedPost(BODY, `/kept${PATH}`)))
    })

    test(`${version}: the raw body that a host keeps while it parses is preferred`, async (t) => {
      const app = express()
      app.use(
        express.json({
          verify: (incoming: IncomingMessage, _response, bytes) => {
            Object.assign(incoming, { rawBody: bytes })
          },
        }),
      )
      app.use((incoming, _, next) => {
        incoming.body = { name: 'changed by the host' }
        next()
      })
      app.use(watched().api)
      assertCreated(await post(await listen(t, app)))
    })

    test(`${version}: a body that was inflated by express.json() is still refused by its Content-Encoding`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      const server = await listen(t, app)
      assertError(await post(server, gzipSync(BODY), 'Content-Encoding: gzip'), 415, /Content-Encoding/)
    })

    test(`${version}: a declared length over the limit is 413 also after express.json()`, async (t) => {
      const app = express()
      app.use(express.json({ limit: '1mb' }))
      app.use(watched().api)
      const server = await listen(t, app)
      assertError(await post(server, JSON.stringify({ name: 'Atlas', pad: 'x'.repeat(70_000) })), 413)
    })

    test(`${version}: a failure is answered by us, not by the host's error handler`, async (t) => {
      const app = express()
      const errors: unknown[] = []
      const store = {
        ...platform.store,
        clients: { ...platform.store.clients, admitAndList: () => Promise.reject(new Error('x')) },
      }
      app.use(platform.apiWith({}, store))
      app.use((error: unknown, _: unknown, response: express5.Response, __: unknown) => {
        errors.push(error)
        response.status(599).send('host')
      })
      const server = await listen(t, app)
      assertError(await get(server), 500, 'Internal error')
      assert.deepEqual(errors, [])
    })
  })
}

describe('A body that the host has touched', () => {
  test('rawBody as bytes and as a string is read instead of the stream', async (t) => {
    for (const convert of [(bytes: Buffer) => bytes, (bytes: Buffer) => new Uint8Array(bytes), String]) {
      const { api } = watched()
      const server = await listen(t, async (incoming, response) => {
        const chunks: Buffer[] = []
        for await (const chunk of incoming) chunks.push(chunk)
        Object.assign(incoming, { rawBody: convert(Buffer.concat(chunks)) })
        await api(incoming, response)
      })
      assertCreated(await post(server))
      assertError(await post(server, ''), 400, /empty/)
      assertError(await post(server, '{'), 400, /not valid JSON/)
    }
  })

  test('rawBody over the limit is 413', async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      Object.assign(incoming, { rawBody: Buffer.alloc(65_537, ' ') })
      await api(incoming, response)
    })
    assertError(await post(server), 413)
  })

  /** A host that reads the stream to its end and leaves in `req.body` what a parser makes of it. */
  function parsing(parse: (bytes: Buffer) => unknown) {
    const { api } = watched()
    return async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
      const chunks: Buffer[] = []
      for await (const chunk of incoming) chunks.push(chunk)
      Object.assign(incoming, { body: parse(Buffer.concat(chunks)) })
      await api(incoming, response)
    }
  }

  test('req.body of a stream that was read to its end is taken as parsed', async (t) => {
    for (const body of [{ name: 'Parsed' }, Object.assign(Object.create(null), { name: 'Parsed' })]) {
      const server = await listen(
        t,
        parsing(() => body),
      )
      assertCreated(await post(server), 'Parsed')
    }
  })

  test('req.body as a string is the text of the request if it is as long, and else a value', async (t) => {
    const text = await listen(t, parsing(String))
    assertCreated(await post(text))
    assertError(await post(text, '{'), 400, /not valid JSON/)
    assertError(await post(text, JSON.stringify(BODY)), 422, /must be a JSON object/)
    const value = await listen(
      t,
      parsing((bytes) => JSON.parse(String(bytes))),
    )
    assertCreated(await post(value))
    // A value is shorter than its JSON by two quotes at least, also when every character of it is escaped.
    const escaped = [...BODY].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
    for (const json of [JSON.stringify(BODY), `"${escaped}"`, `"${'\\n'.repeat(9)}{}"`]) {
      assertError(await post(value, json), 422, /must be a JSON object/)
    }
  })

  test('req.body is not believed while the stream is still unread, as Express 4 sets an empty one', async (t) => {
    const { api } = watched()
    const server = await listen(t, (incoming, response) => {
      Object.assign(incoming, { body: {} })
      void api(incoming, response)
    })
    assertCreated(await post(server))
  })

  test('A body that was consumed and lost is 500 at once, and onError is told what to do', async (t) => {
    const { api, failures } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      await api(incoming, response)
    })
    const begun = performance.now()
    assertError(await post(server), 500, 'Internal error')
    assert.ok(performance.now() - begun < 2000)
    assert.equal(failures.length, 1)
    assert.match(String(failures[0]?.error), /consumed before this handler.*req\.rawBody or req\.body/)
  })

  test('A body that the host is still reading is 500 at once, not a wait', async (t) => {
    const { api, failures } = watched()
    const server = await listen(t, (incoming, response) => {
      incoming.on('data', () => {})
      // After the host's first data event.
      setImmediate(() => void api(incoming, response))
    })
    const begun = performance.now()
    assertError(await post(server), 500)
    assert.ok(performance.now() - begun < 2000)
    assert.equal(failures.length, 1)
  })

  test('An empty body that the host has read is not taken for a lost one: GET still works', async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      await api(incoming, response)
    })
    assert.equal((await get(server)).status, 200)
  })

  test('A stream for which the host has set an encoding is read all the same', async (t) => {
    const { api } = watched({ deadlineMs: 1000 })
    const server = await listen(t, (incoming, response) => {
      incoming.setEncoding('utf8')
      void api(incoming, response)
    })
    assertCreated(await post(server))
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('The size of a stream for which the host has set an encoding is counted in bytes', async (t) => {
    const { api } = watched({ maxBodyBytes: 30, deadlineMs: 1000 })
    const server = await listen(t, (incoming, response) => {
      incoming.setEncoding('utf8')
      void api(incoming, response)
    })
    const body = '{"name":"éééééééééé"}'
    assert.equal(body.length, 21)
    assert.equal(Buffer.byteLength(body), 31)
    assertError(await rawRequest(server, chunkedPost(body)), 413)
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('A paused stream is read all the same', async (t) => {
    const { api } = watched()
    const server = await listen(t, (incoming, response) => {
      incoming.pause()
      void api(incoming, response)
    })
    assertCreated(await post(server))
  })

  test('A host may call us later than in the turn of the request', async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      await settle()
      await api(incoming, response)
    })
    assertCreated(await post(server))
    assert.equal((await get(server)).status, 200)
  })
})

describe('fetch', () => {
  const url = `https://api.example${PATH}`
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }

  function streaming(body: ReadableStream<unknown>): Request {
    return new Request(url, {
      method: 'POST',
      headers,
      body: body as ReadableStream<Uint8Array>,
      duplex: 'half',
    })
  }

  async function answerOf(response: Promise<Response>): Promise<Answer> {
    const {
      status,
      headers: answered,
      ...rest
    } = await response.then(async (each) => ({
      status: each.status,
      headers: each.headers,
      text: await each.text(),
    }))
    return { status, headers: answered, ...rest }
  }

  test('A Request whose body was used is 500, and onError is told why', async () => {
    const { api, failures } = watched()
    assertError(await answerOf(api(await used())), 500, 'Internal error')
    assert.equal(failures.length, 1)
    assert.match(String(failures[0]?.error), /consumed before this handler/)
  })

  test('A Request whose body is locked by a reader is 500, not a wait', async () => {
    const { api, failures } = watched()
    const locked = new Request(url, { method: 'POST', headers, body: BODY })
    locked.body?.getReader()
    assertError(await answerOf(api(locked)), 500, 'Internal error')
    assert.equal(failures.length, 1)
  })

  /** A Request whose body the host has read. */
  async function used(
    body: string = BODY,
    ownHeaders: Readonly<Record<string, string>> = {},
  ): Promise<Request> {
    const request = new Request(url, { method: 'POST', headers: { ...headers, ...ownHeaders }, body })
    await request.text()
    return request
  }

  test('A Request whose body was used is served with what the host gives: text, bytes or a value', async () => {
    const { api } = watched()
    for (const given of [
      { rawBody: BODY },
      { rawBody: Buffer.from(BODY) },
      { rawBody: new Uint8Array(Buffer.from(BODY)) },
      { body: JSON.parse(BODY) },
      { rawBody: BODY, body: { name: 'not the one' } },
      { rawBody: undefined, body: JSON.parse(BODY) },
    ]) {
      assertCreated(await answerOf(api.fetch(await used(), given)))
      assertCreated(await answerOf(api(await used(), given)))
    }
    const locked = new Request(url, { method: 'POST', headers, body: BODY })
    locked.body?.getReader()
    assertCreated(await answerOf(api.fetch(locked, { rawBody: BODY })))
  })

  test('What the host gives is judged as any body is', async () => {
    const { api, failures } = watched()
    const refused: [status: number, given: FetchBody, message: RegExp][] = [
      [400, { rawBody: '' }, /empty/],
      [400, { rawBody: '{' }, /not valid JSON/],
      [400, { rawBody: Buffer.from('{"name":"Caf\xe9"}', 'latin1') }, /not valid UTF-8/],
      [413, { rawBody: ' '.repeat(65_537) }, /65536/],
      [413, { body: { name: 'Atlas', pad: 'x'.repeat(65_537) } }, /65536/],
      [422, { rawBody: JSON.stringify(BODY) }, /must be a JSON object/],
      // A string is a value here and never text, whatever its length.
      [422, { body: BODY }, /must be a JSON object/],
      [422, { body: null }, /must be a JSON object/],
      [422, { body: { name: 'A' } }, /name must be/],
    ]
    for (const [status, given, message] of refused) {
      assertError(await answerOf(api.fetch(await used(), given)), status, message)
    }
    const declared = await used(BODY, { 'Content-Length': String(Buffer.byteLength(BODY)) })
    assertError(await answerOf(api.fetch(declared, { body: BODY })), 422, /must be a JSON object/)
    assertError(
      await answerOf(api.fetch(await used(BODY, { 'Content-Type': 'text/plain' }), { body: {} })),
      415,
    )
    assert.deepEqual(failures, [])
  })

  test('body does not count while the Request is unread, as other second arguments may have one; rawBody does', async () => {
    const { api } = watched()
    const unread = () => new Request(url, { method: 'POST', headers, body: BODY })
    assertCreated(await answerOf(api.fetch(unread(), { body: { name: 'not the one' } })))
    assertCreated(await answerOf(api.fetch(unread(), { rawBody: '{"name":"Raw"}' })), 'Raw')
  })

  test('A second argument that holds no body is ignored: of Next.js, Bun, Deno and Workers', async () => {
    const { api, failures } = watched()
    for (const second of [
      { params: Promise.resolve({ path: ['v1', 'clients'] }) },
      { remoteAddr: { hostname: '::1' }, completed: Promise.resolve() },
      { rawBody: 7, DATABASE_URL: 'postgres://…' },
      null,
      undefined,
      'text',
      7,
      () => {},
    ]) {
      for (const handler of [api, api.fetch]) {
        const request = new Request(url, { method: 'POST', headers, body: BODY })
        const answered: Promise<Response> = Reflect.apply(handler, undefined, [request, second])
        assertCreated(await answerOf(answered))
      }
      assertError(await answerOf(Reflect.apply(api.fetch, undefined, [await used(), second])), 500)
    }
    assert.match(String(failures[0]?.error), /api\.fetch\(request, \{ rawBody \}\)/)
  })

  test('api.fetch has the types of handlers with another second argument, and refuses a body of another type', () => {
    const { api } = watched()
    const nextjs: (request: Request, context: { params: Promise<object> }) => Promise<Response> = api.fetch
    const deno: (request: Request, info: { remoteAddr: object }) => Promise<Response> = api.fetch
    const workers: { fetch(request: Request, env: unknown, context: object): Promise<Response> } = api
    // @ts-expect-error text or bytes, not a value
    const wrong = () => api.fetch(new Request(url), { rawBody: 7 })
    for (const handler of [nextjs, deno, workers.fetch, wrong]) assert.equal(typeof handler, 'function')
  })

  test('A GET is served whatever the second argument gives', async () => {
    const { api } = watched()
    const response = await api.fetch(new Request(url, { headers }), { rawBody: '', body: undefined })
    assert.equal(response.status, 200)
  })

  test('A Request of which a clone was read is fine', async () => {
    const { api } = watched()
    const request = new Request(url, { method: 'POST', headers, body: BODY })
    await request.clone().text()
    assertCreated(await answerOf(api(request)))
  })

  test('A streaming body in pieces is read', async () => {
    const { api } = watched()
    const bytes = Buffer.from(BODY)
    const body = new ReadableStream({
      async pull(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
    assertCreated(await answerOf(api(streaming(body))))
  })

  test('A streaming body over the limit is 413, and is not read on', async () => {
    const { api } = watched()
    let pulled = 0
    let cancelled = false
    const body = new ReadableStream({
      pull(controller) {
        pulled++
        controller.enqueue(new Uint8Array(10_000).fill(32))
      },
      cancel() {
        cancelled = true
      },
    })
    assertError(await answerOf(api(streaming(body))), 413)
    assert.ok(pulled < 12, `read ${pulled} pieces`)
    assert.equal(cancelled, true)
  })

  test('A streaming body that stalls is 503 at the deadline', async () => {
    const { api } = watched({ deadlineMs: 150 })
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from('{"name":'))
      },
    })
    assertError(await answerOf(api(streaming(body))), 503)
  })

  test('A streaming body that breaks off is 400, as over node:http, and no failure of ours', async () => {
    const { api, failures } = watched()
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from('{"name":'))
      },
      pull(controller) {
        controller.error(new Error('the client is gone'))
      },
    })
    assertError(await answerOf(api(streaming(body))), 400)
    assert.deepEqual(failures, [])
  })

  test('A POST without a body is 400', async () => {
    const { api } = watched()
    assertError(await answerOf(api(new Request(url, { method: 'POST', headers }))), 400, /empty/)
  })

  test('A GET with everything that Next.js adds is answered', async () => {
    const { api } = watched()
    const request = Object.assign(new Request(url, { headers }), {
      nextUrl: new URL(url),
      geo: {},
      ip: '::1',
    })
    assert.equal((await api(request)).status, 200)
  })
})

test('a page of bytes passes through unchanged, with its length in bytes', async (t) => {
  const page = Buffer.from('[{"name":"Écume 🏺"}]')
  const expected = Buffer.concat([Buffer.from('{"data":'), page, Buffer.from('}')])
  const clients = {
    ...platform.store.clients,
    admitAndList: async (...given: Parameters<typeof platform.store.clients.admitAndList>) => ({
      ...(await platform.store.clients.admitAndList(...given)),
      page,
    }),
  }
  const api = platform.apiWith({ rateLimit: false }, { ...platform.store, clients })
  const server = await listen(t, api)
  const headers = { authorization: `Bearer ${key}` }
  for (const send of [
    (method: string) => fetch(`${server.url}${PATH}`, { method, headers }),
    (method: string) => api.fetch(new Request(`http://x${PATH}`, { method, headers })),
  ]) {
    const response = await send('GET')
    assert.equal(response.headers.get('content-length'), String(expected.length))
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
    assert.deepEqual(Buffer.from(await response.arrayBuffer()), expected)
    const head = await send('HEAD')
    assert.equal(head.headers.get('content-length'), String(expected.length))
    assert.equal(await head.text(), '')
  }
})
