import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { VERSION } from '../../lib/base/version.ts'
import { replyWith, startRawReceiver, startReceiver, startSecureReceiver } from './_receiver.ts'
import { CERTIFICATE } from './_receiver-certificate.ts'
import { createLocalSender, createSender, makeRequest, resolveTo } from './_setup.ts'

describe('the request', () => {
  test('the request is one POST with exactly the given headers and body', async (context) => {
    const receiver = await startReceiver(context)
    const request = makeRequest(`${receiver.origin}/hooks/1?a=b%20c#fragment`)
    const answer = await createLocalSender(context).send(request)
    assert.equal(answer.status, 200)
    const [received] = receiver.requests
    assert.ok(received)
    assert.equal(received.method, 'POST')
    assert.equal(received.path, '/hooks/1?a=b%20c')
    assert.equal(received.body, request.body)
    assert.deepEqual(received.headers, {
      host: `127.0.0.1:${receiver.port}`,
      connection: 'keep-alive',
      'user-agent': `business-api-kit/${VERSION} (webhooks)`,
      accept: '*/*',
      'content-type': 'application/json',
      'x-service-event-id': 'evt_01',
      'x-service-event-type': 'client.created',
      'x-service-signature': 't=1,v1=00',
      'content-length': String(Buffer.byteLength(request.body)),
    })
  })

  test('the request keeps the spelling of header names, and the last of equal names', async (context) => {
    const receiver = await startReceiver(context)
    const request = makeRequest(receiver.origin)
    await createLocalSender(context).send({
      ...request,
      headers: { 'x-service-signature': 'forged', 'X-Own': 'é', ...request.headers },
    })
    const names = receiver.requests[0]?.rawHeaders.filter((_, index) => index % 2 === 0)
    assert.deepEqual(names?.filter((name) => /signature|own/i.test(name)).sort(), [
      'X-Own',
      'X-SERVICE-Signature',
    ])
    assert.equal(receiver.requests[0]?.headers['x-service-signature'], 't=1,v1=00')
    assert.equal(receiver.requests[0]?.headers['x-own'], 'é')
  })

  test('the request leaves out headers reserved for the connection or the sender', async (context) => {
    const receiver = await startReceiver(context)
    const answer = await createLocalSender(context, { userAgent: 'Acme-Webhooks/2' }).send(
      makeRequest(receiver.origin, {
        Host: 'internal.example',
        'content-length': '1',
        'Transfer-Encoding': 'chunked',
        Connection: 'close',
        'Keep-Alive': 'timeout=600',
        Upgrade: 'h2c',
        Expect: '100-continue',
        TE: 'trailers',
        Trailer: 'X',
        'Proxy-Connection': 'keep-alive',
        'User-Agent': 'curl/8',
      }),
    )
    assert.equal(answer.status, 200)
    const headers = receiver.requests[0]?.headers
    assert.equal(headers?.host, `127.0.0.1:${receiver.port}`)
    assert.equal(headers?.connection, 'keep-alive')
    assert.equal(headers?.['user-agent'], 'Acme-Webhooks/2')
    const left = ['transfer-encoding', 'keep-alive', 'upgrade', 'expect', 'te', 'trailer', 'proxy-connection']
    for (const name of left) assert.equal(headers?.[name], undefined, name)
  })

  for (const protocol of ['http', 'https'] as const)
    test(`the request has no headers of tracing agents, which add them to all undici requests (${protocol})`, async (context) => {
      const instrument = (message: unknown): void => {
        const { request } = message as { request: { addHeader(name: string, value: string): void } }
        request.addHeader('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')
        request.addHeader('baggage', 'sentry-environment=production')
        request.addHeader('X-OWN', 'forged')
      }
      subscribe('undici:request:create', instrument)
      context.after(() => unsubscribe('undici:request:create', instrument))
      const start = protocol === 'http' ? startReceiver : startSecureReceiver
      const receiver = await start(context)
      const sender = createLocalSender(context, { ca: CERTIFICATE })
      for (const own of [{ 'X-Own': 'a' }, { tracestate: 'b' }])
        assert.equal((await sender.send(makeRequest(receiver.origin, own))).status, 200)
      const [first, second] = receiver.requests.map(({ rawHeaders }) => rawHeaders.join(' '))
      assert.match(first ?? '', /X-Own a/)
      assert.match(second ?? '', /tracestate b/)
      assert.doesNotMatch(`${first} ${second}`, /traceparent|baggage|forged/i)
    })

  test("the request doesn't ask for compression", async (context) => {
    const receiver = await startReceiver(context)
    await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(receiver.requests[0]?.headers['accept-encoding'], undefined)
  })
})

describe('the response', () => {
  for (const status of [200, 204, 299, 400, 404, 410, 429, 500, 503, 599]) {
    test(`the response has the status ${status} that was sent, and no error`, async (context) => {
      const receiver = await startReceiver(context, (response) => response.writeHead(status).end())
      const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
      assert.equal(answer.status, status)
      assert.equal(answer.error, null)
      assert.equal(answer.bodyExcerpt, '')
      assert.equal(answer.retryAfterMs, null)
    })
  }

  test('the response is the one after all interim responses', async (context) => {
    const receiver = await startRawReceiver(
      context,
      replyWith(
        'HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok',
      ),
    )
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.deepEqual([answer.status, answer.bodyExcerpt, answer.retryAfterMs], [202, 'ok', null])
    assert.deepEqual(answer.headers, { 'content-length': '2' }, 'of a success too')
  })

  for (const status of [301, 302, 303, 307, 308]) {
    test(`a redirect (${status}) is not followed to any destination`, async (context) => {
      const target = await startReceiver(context)
      const receiver = await startReceiver(context, (response) =>
        response.writeHead(status, { Location: `${target.origin}/admin` }).end('moved'),
      )
      const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
      assert.equal(answer.status, status)
      assert.equal(answer.bodyExcerpt, 'moved')
      assert.equal(answer.location, `${target.origin}/admin`)
      assert.deepEqual(answer.headers?.location, `${target.origin}/admin`)
      assert.equal(receiver.requests.length, 1)
      assert.equal(target.accepted, 0)
    })
  }

  test("the response has the start of the body as a string without characters that databases can't store", async (context) => {
    const body = Buffer.concat([Buffer.from('é 🏺\n\0\x1b[31m'), Buffer.of(0xff, 0xed, 0xa0, 0x80)])
    const receiver = await startReceiver(context, (response) => response.end(body))
    const { bodyExcerpt } = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(bodyExcerpt, 'é 🏺\n\\u{0}\\u{1b}[31m\uFFFD\uFFFD\uFFFD\uFFFD')
  })

  test("the excerpt has U+FFFD for bytes that aren't UTF-8, including the last, and for nothing else", async (context) => {
    const latin = Buffer.from('refusé', 'latin1')
    for (const [body, excerpt] of [
      [latin, 'refus\uFFFD'],
      [Buffer.of(0xe2, 0x98), '\uFFFD'],
      [Buffer.from('a\u001b\0\u007f\u009bb\uFFFDc'), 'a\\u{1b}\\u{0}\\u{7f}\\u{9b}b\\u{fffd}c'],
      [Buffer.concat([latin, Buffer.from('\uFFFD')]), 'refus\uFFFD\uFFFD'],
      [Buffer.from(`${'x'.repeat(4095)}é`), 'x'.repeat(4095)],
      [Buffer.from(`${'x'.repeat(4094)}🏺`), 'x'.repeat(4094)],
    ] as const) {
      const receiver = await startReceiver(context, (response) => response.end(body))
      const { bodyExcerpt } = await createLocalSender(context).send(makeRequest(receiver.origin))
      assert.equal(bodyExcerpt, excerpt)
    }
  })

  test("the response has an empty excerpt if the body is compressed, which isn't decompressed", async (context) => {
    const receiver = await startReceiver(context, (response) =>
      response.setHeader('Content-Encoding', 'gzip').end(gzipSync('secret')),
    )
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(answer.status, 200)
    assert.equal(answer.bodyExcerpt, '')
  })

  test("the response has the wait of Retry-After by the other side's clock", async (context) => {
    const date = 'Sat, 21 Nov 2020 10:00:00 GMT'
    const asked = ['120', 'Sat, 21 Nov 2020 10:01:30 GMT', 'Sat, 21 Nov 2020 09:00:00 GMT', '\t7 ', 'soon']
    const receiver = await startReceiver(context, (response) =>
      response.writeHead(503, { Date: date, 'Retry-After': asked.shift() }).end(),
    )
    const sender = createLocalSender(context)
    const given: unknown[] = []
    for (let count = asked.length; count > 0; count -= 1) {
      given.push((await sender.send(makeRequest(receiver.origin))).retryAfterMs)
    }
    assert.deepEqual(given, [120_000, 90_000, 0, 7000, null])
  })
})

describe('TLS', () => {
  test('TLS uses the name in the URL, and the certificate is checked', async (context) => {
    const names: unknown[] = []
    const receiver = await startSecureReceiver(context, (response) => {
      names.push(response.socket instanceof TLSSocket && response.socket.servername)
      response.end('ok')
    })
    const sender = createSender(context, {
      allowPrivateNetworks: true,
      lookup: resolveTo('127.0.0.1'),
      ca: CERTIFICATE,
    })
    for (const host of ['receiver.test', 'a.receiver.test', 'receiver.test.', '127.0.0.1']) {
      const answer = await sender.send(makeRequest(`https://${host}:${receiver.port}/`))
      assert.deepEqual([answer.status, answer.bodyExcerpt], [200, 'ok'], `${host}: ${answer.detail}`)
    }
    // RFC 6066: the name has no trailing dot and is not an address.
    assert.deepEqual(names, ['receiver.test', 'a.receiver.test', 'receiver.test', false])
  })
})

describe('the timings', () => {
  test("the timings have each phase, and null for those that an open connection doesn't need", async (context) => {
    const receiver = await startSecureReceiver(context, (response) => setTimeout(() => response.end(), 30))
    const sender = createSender(context, {
      allowPrivateNetworks: true,
      lookup: (_hostname, _options, callback) =>
        setTimeout(() => callback(null, [{ address: '127.0.0.1', family: 4 }]), 20),
      ca: CERTIFICATE,
    })
    const request = makeRequest(`https://receiver.test:${receiver.port}`)

    const first = await sender.send(request)
    assert.equal(first.status, 200, first.detail ?? '')
    const { dnsMs, connectMs, tlsMs, firstByteMs } = first.timings ?? {}
    assert.ok(dnsMs && dnsMs >= 18, `dnsMs ${dnsMs}`)
    assert.ok(connectMs && connectMs > 0, `connectMs ${connectMs}`)
    assert.ok(tlsMs && tlsMs > 0, `tlsMs ${tlsMs}`)
    assert.ok(firstByteMs && firstByteMs >= 28, `firstByteMs ${firstByteMs}`)
    assert.ok(dnsMs + connectMs + tlsMs + firstByteMs <= first.durationMs)

    const second = await sender.send(request)
    assert.deepEqual(
      { ...second.timings, firstByteMs: null },
      {
        dnsMs: null,
        connectMs: null,
        tlsMs: null,
        firstByteMs: null,
      },
    )
    assert.ok((second.timings?.firstByteMs ?? 0) >= 28)
  })

  test('the timings have no lookup for an address and no TLS for http', async (context) => {
    const receiver = await startReceiver(context)
    const { timings } = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(timings?.dnsMs, null)
    assert.equal(timings?.tlsMs, null)
    assert.ok((timings?.connectMs ?? 0) > 0)
  })
})
