import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createApiClient } from '../../lib/client.ts'
import { collect, errorOf, json, KEY, script } from './_answers.ts'

/** A body that counts how much of it is read. */
function endless(status = 200, headers: Record<string, string> = {}) {
  const read = { chunks: 0, isCancelled: false }
  const body = (): ReadableStream<Uint8Array> =>
    new ReadableStream({
      pull(controller) {
        read.chunks++
        controller.enqueue(new Uint8Array(1024 * 1024).fill(0x20))
      },
      cancel() {
        read.isCancelled = true
      },
    })
  return { read, answer: () => new Response(body(), { status, headers }) }
}

describe('limits of the client', () => {
  test("a response over 10 MiB immediately ends any call, naming the limit, and the rest isn't read", async () => {
    for (const call of ['list', 'create'] as const) {
      const { read, answer } = endless(200, { 'X-Request-Id': 'req_7' })
      const { api, requests } = script([answer])
      const error = await errorOf(
        call === 'list' ? collect(api.clients.list()) : api.clients.create({ name: 'A' }),
      )
      assert.deepEqual(
        [error.code, error.isTransient, error.status, error.requestId],
        ['invalid_response', false, 200, 'req_7'],
      )
      assert.match(error.message, /more than 10485760 bytes: raise option 'maxResponseBytes'/)
      assert.equal(requests.length, 1)
      assert.ok(read.chunks <= 13, String(read.chunks))
      assert.ok(read.isCancelled)
    }
  })

  test('an error response with a large body keeps its code and is retried if it may be temporary', async () => {
    const { answer } = endless(503)
    const { api, requests } = script([answer, json({ data: [{ id: 'cli_1' }] })])
    assert.equal((await collect(api.clients.list())).length, 1)
    assert.equal(requests.length, 2)
    const { answer: forbidden } = endless(403)
    assert.equal((await errorOf(collect(script([forbidden]).api.clients.list()))).code, 'forbidden')
  })

  test('bytes are counted after decompression, and the option changes the limit', async (t) => {
    const body = JSON.stringify({ data: [{ id: 'cli_1', name: ' '.repeat(2_000_000) }] })
    const server = createServer((_, response: ServerResponse) => {
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
      response.end(gzipSync(body))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.after(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const small = createApiClient({ url, key: KEY, maxResponseBytes: body.length - 1 })
    assert.match((await errorOf(collect(small.clients.list()))).message, /maxResponseBytes/)
    const large = createApiClient({ url, key: KEY, maxResponseBytes: body.length })
    assert.equal((await collect(large.clients.list())).length, 1)
    assert.throws(() => createApiClient({ url, key: KEY, maxResponseBytes: 0 }), /maxResponseBytes/)
    server.closeAllConnections()
  })

  test('a custom fetch can return a Node.js stream as the body', async () => {
    const body = Readable.from([Buffer.from('{"data":[{"id":'), Buffer.from('"cli_1"}]}')])
    const answer = () => ({ status: 200, headers: new Headers(), body }) as unknown as Response
    assert.equal((await collect(script([answer]).api.clients.list())).length, 1)
    const large = () =>
      ({
        status: 200,
        headers: new Headers(),
        body: Readable.from([Buffer.alloc(99)]),
      }) as unknown as Response
    assert.match(
      (await errorOf(collect(script([large], { maxResponseBytes: 98 }).api.clients.list()))).message,
      /98 bytes/,
    )
  })

  test('ApiError contains no invisible characters from the message, id or failure', async () => {
    const hostile = 'a\u001b[31mb\u0007c\u0085d\u009be\u202ef\u200eg\u0000h'
    const shown = 'a\\u{1b}[31mb\\u{7}c\\u{85}d\\u{9b}e\\u{202e}f\\u{200e}g\\u{0}h'
    const errors = [
      await errorOf(
        script([json({ error: hostile, requestId: hostile }, {}, 422)]).api.clients.create({ name: 'A' }),
      ),
      await errorOf(script([() => new Response(hostile, { status: 404 })]).api.clients.create({ name: 'A' })),
      await errorOf(
        script(
          [
            () => {
              throw new TypeError(hostile)
            },
          ],
          { maxRetries: 0 },
        ).api.clients.create({ name: 'A' }),
      ),
    ]
    for (const { message, requestId } of errors) {
      assert.ok(message.includes(shown), message)
      assert.doesNotMatch(`${message}${requestId}`, /[\p{Cc}\p{Cf}]/u)
    }
    assert.equal(errors[0]?.requestId, shown)
    const link = { Link: '<https://evil.example/>; rel="next"', 'X-Request-Id': 'req\u009b31m' }
    assert.equal(
      (await errorOf(collect(script([json({ data: [] }, link)]).api.clients.list()))).requestId,
      'req\\u{9b}31m',
    )
  })

  test('the error for a redirect contains its target without credentials, query and key', async () => {
    const places: readonly [location: string, shown: string][] = [
      ['https://new.example/api/v1/clients?token=t0p', 'https://new.example/api/v1/clients,'],
      ['https://ada:t0p@new.example/x#t0p', 'https://new.example/x,'],
      ['/login?next=t0p', 'https://app.example/login,'],
      ['https:/ada:t0p@new.example/x', 'https://new.example/x,'],
      ['https:ada:t0p@new.example/x', 'https://new.example/x,'],
      ['\\\\ada:t0p@new.example/x', 'https://new.example/x,'],
      ['http:ada:t0p@new.example/x', 'http://new.example/x,'],
      ['foo://ada:t0p@new.example/x', 'not an http URL,'],
      ['http://[t0p', 'not an http URL,'],
      [`https://new.example/${KEY}`, 'https://new.example/[key],'],
    ]
    for (const status of [301, 302, 303, 307, 308])
      for (const [location, shown] of places) {
        const { api, requests } = script([
          () => new Response(null, { status, headers: { Location: location } }),
        ])
        const error = await errorOf(collect(api.clients.list()))
        assert.ok(error.message.includes(`a redirect to ${shown}`), error.message)
        assert.doesNotMatch(error.message, /t0p/)
        assert.deepEqual([error.code, requests.length], ['invalid_response', 1])
      }
  })

  test('the error for a redirect contains its target, whatever the body is', async () => {
    for (const body of ['{"error":"Moved"}', 'x'.repeat(1000)]) {
      const headers = { Location: 'https://new.example/x', 'Content-Type': 'application/json' }
      const { api } = script([() => new Response(body, { status: 308, headers })], { maxResponseBytes: 100 })
      const error = await errorOf(collect(api.clients.list()))
      assert.match(
        error.message,
        /responded with 308: .*a redirect to https:\/\/new\.example\/x, which is not followed/,
      )
      assert.equal(error.code, 'invalid_response')
    }
  })
})
