import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { FetchBody } from '../../lib/index.ts'
import { type Answer, assertError } from '../api/_api.ts'
import { assertCreated, BODY, key, PATH, watched } from './_adapters.ts'

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

  test('A Request whose body was used is 500, and onError receives the reason', async () => {
    const { api, failures } = watched()
    assertError(await answerOf(api(await used())), 500, 'Internal error')
    assert.equal(failures.length, 1)
    assert.match(String(failures[0]?.error), /consumed before this handler/)
  })

  test('A response before the end of the body has Connection: close, for the server behind fetch', async () => {
    const { api } = watched()
    const connectionOf = async (request: Request): Promise<readonly [number, string | null]> => {
      const { status, headers: answered } = await api(request)
      return [status, answered.get('connection')]
    }
    const large = 'x'.repeat(100_000)
    const post = (body: string, own: Readonly<Record<string, string>> = headers): Request =>
      new Request(url, { method: 'POST', headers: own, body })
    assert.deepEqual(await connectionOf(post(BODY, {})), [401, 'close'])
    assert.deepEqual(await connectionOf(post(large)), [413, 'close'])
    assert.deepEqual(await connectionOf(new Request(url, { method: 'PUT', body: BODY })), [405, 'close'])
    assert.deepEqual(await connectionOf(post('{}')), [422, null])
    assert.deepEqual(await connectionOf(post(BODY)), [200, null])
    assert.deepEqual(await connectionOf(new Request(url)), [401, null])
    const { status, headers: answered } = await api.fetch(await used(BODY, { Authorization: 'x' }), {
      rawBody: BODY,
    })
    assert.deepEqual([status, answered.get('connection')], [401, null])
  })

  test('A Request whose body is locked by a reader is an immediate 500', async () => {
    const { api, failures } = watched()
    const locked = new Request(url, { method: 'POST', headers, body: BODY })
    locked.body?.getReader()
    assertError(await answerOf(api(locked)), 500, 'Internal error')
    assert.equal(failures.length, 1)
  })

  /** Returns a Request whose body was already read by the host. */
  async function used(
    body: string = BODY,
    ownHeaders: Readonly<Record<string, string>> = {},
  ): Promise<Request> {
    const request = new Request(url, { method: 'POST', headers: { ...headers, ...ownHeaders }, body })
    await request.text()
    return request
  }

  test('A Request whose body was used is served with the string, bytes or value passed by the host', async () => {
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

  test('A body passed by the host is validated like any other', async () => {
    const { api, failures } = watched()
    const refused: [status: number, given: FetchBody, message: RegExp][] = [
      [400, { rawBody: '' }, /empty/],
      [400, { rawBody: '{' }, /not valid JSON/],
      [400, { rawBody: Buffer.from('{"name":"Caf\xe9"}', 'latin1') }, /not valid UTF-8/],
      [413, { rawBody: ' '.repeat(65_537) }, /65536/],
      [413, { body: { name: 'Atlas', pad: 'x'.repeat(65_537) } }, /65536/],
      [422, { rawBody: JSON.stringify(BODY) }, /must be a JSON object/],
      // A string of any length is a value and never raw JSON here.
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

  test('body is ignored if the Request is unread, because other second arguments may have a body, but rawBody is used', async () => {
    const { api } = watched()
    const unread = () => new Request(url, { method: 'POST', headers, body: BODY })
    assertCreated(await answerOf(api.fetch(unread(), { body: { name: 'not the one' } })))
    assertCreated(await answerOf(api.fetch(unread(), { rawBody: '{"name":"Raw"}' })), 'Raw')
  })

  test('Other second arguments from Next.js, Bun, Deno and Workers are ignored', async () => {
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

  test('api.fetch has the type of a handler with another second argument, and rejects a body of the wrong type', () => {
    const { api } = watched()
    const nextjs: (request: Request, context: { params: Promise<object> }) => Promise<Response> = api.fetch
    const deno: (request: Request, info: { remoteAddr: object }) => Promise<Response> = api.fetch
    const workers: { fetch(request: Request, env: unknown, context: object): Promise<Response> } = api
    // @ts-expect-error text or bytes, not a value
    const wrong = () => api.fetch(new Request(url), { rawBody: 7 })
    for (const handler of [nextjs, deno, workers.fetch, wrong]) assert.equal(typeof handler, 'function')
  })

  test('A GET is served with any second argument', async () => {
    const { api } = watched()
    const response = await api.fetch(new Request(url, { headers }), { rawBody: '', body: undefined })
    assert.equal(response.status, 200)
  })

  test('A Request is served even if its clone was read', async () => {
    const { api } = watched()
    const request = new Request(url, { method: 'POST', headers, body: BODY })
    await request.clone().text()
    assertCreated(await answerOf(api(request)))
  })

  test('A streaming body can be read in pieces', async () => {
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

  test("A streaming body over the limit is 413, and the rest isn't read", async () => {
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

  test("A streaming body that ends early is 400, as with node:http, and isn't reported as a failure", async () => {
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

  test('A GET with everything that Next.js adds is served', async () => {
    const { api } = watched()
    const request = Object.assign(new Request(url, { headers }), {
      nextUrl: new URL(url),
      geo: {},
      ip: '::1',
    })
    assert.equal((await api(request)).status, 200)
  })
})
