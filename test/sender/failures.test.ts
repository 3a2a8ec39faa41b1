import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, test } from 'node:test'
import { toSendError } from '../../lib/sender/send-error.ts'
import { closed, replyWith, startRawReceiver, startReceiver, startSecureReceiver } from './_receiver.ts'
import { CERTIFICATE } from './_receiver-certificate.ts'
import { assertFailed, createLocalSender, createSender, makeRequest, resolveTo } from './_setup.ts'

describe('the error', () => {
  test('the error is connection_refused if nothing is listening at any of the addresses', async (context) => {
    const { port } = await startReceiver(context)
    // Addresses of this machine without a listener. A free port may be taken by the time we connect.
    const lookup = resolveTo('127.66.77.88', '127.66.77.89')
    const sender = createLocalSender(context, { lookup })
    assertFailed(
      await sender.send(makeRequest(`http://127.66.77.88:${port}`)),
      'connection_refused',
      /ECONNREFUSED/,
    )
    const answer = await sender.send(makeRequest(`http://receiver.test:${port}`))
    assertFailed(answer, 'connection_refused', /127\.66\.77\.88:\d+; .*127\.66\.77\.89:\d+/)
  })

  test('the error is connection_reset if the connection is reset or closed before the response', async (context) => {
    for (const end of [(socket: Socket) => socket.resetAndDestroy(), (socket: Socket) => socket.end()]) {
      const receiver = await startRawReceiver(context, (socket) => socket.once('data', () => end(socket)))
      assertFailed(await createLocalSender(context).send(makeRequest(receiver.origin)), 'connection_reset')
      assert.equal(receiver.accepted, 1)
    }
  })

  test('the error is connection_reset if the connection ends in the headers', async (context) => {
    for (const reply of [
      'H',
      'HTTP/1.1 200 OK',
      'HTTP/1.1 200 OK\r\nContent-Le',
      'HTTP/1.1 100 Continue\r\n\r\n',
    ]) {
      const receiver = await startRawReceiver(context, (socket) =>
        socket.once('data', () => socket.end(reply)),
      )
      assertFailed(await createLocalSender(context).send(makeRequest(receiver.origin)), 'connection_reset')
      assert.equal(receiver.accepted, 1, reply)
    }
  })

  test("the error is dns_failed if the name doesn't resolve because the lookup failed for any reason", async (context) => {
    const failures: Record<string, Parameters<typeof createLocalSender>[1]> = {
      'getaddrinfo ENOTFOUND a.test': {
        lookup: (_hostname, _options, callback) =>
          callback(Object.assign(new Error('getaddrinfo ENOTFOUND a.test'), { code: 'ENOTFOUND' }), []),
      },
      'a.test has no address': { lookup: resolveTo() },
      'the lookup of a.test gave no list': {
        lookup: (_hostname, _options, callback) => Reflect.apply(callback, null, [null, '127.0.0.1', 4]),
      },
      'the lookup is broken': {
        lookup: () => {
          throw new Error('the lookup is broken')
        },
      },
      'the async lookup is broken': {
        lookup: async () => {
          throw new Error('the async lookup is broken')
        },
      },
    }
    for (const [message, options] of Object.entries(failures)) {
      const answer = await createLocalSender(context, options).send(makeRequest('http://a.test:8080'))
      assertFailed(answer, 'dns_failed', new RegExp(`^${message}$`))
    }
  })

  test("the error is tls_untrusted if the certificate isn't signed by a trusted authority", async (context) => {
    const receiver = await startSecureReceiver(context)
    const untrusting = createSender(context, { allowPrivateNetworks: true })
    const answer = await untrusting.send(makeRequest(`https://127.0.0.1:${receiver.port}`))
    assertFailed(answer, 'tls_untrusted', /self-signed certificate/)
    assert.equal(receiver.requests.length, 0)
  })

  test('the error is tls_wrong_name if the certificate is for another name', async (context) => {
    const receiver = await startSecureReceiver(context)
    const lookup = resolveTo('127.0.0.1')
    const sender = createSender(context, { allowPrivateNetworks: true, ca: CERTIFICATE, lookup })
    const answer = await sender.send(makeRequest(`https://other.test:${receiver.port}`))
    assertFailed(answer, 'tls_wrong_name', /other\.test/)
    assert.equal(receiver.requests.length, 0)
  })

  test('the error is tls_untrusted even if the environment disables verification', async (context) => {
    const receiver = await startSecureReceiver(context)
    context.mock.method(process, 'emitWarning', () => {})
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    context.after(() => {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    })
    const sender = createSender(context, { allowPrivateNetworks: true })
    assertFailed(await sender.send(makeRequest(`https://127.0.0.1:${receiver.port}`)), 'tls_untrusted')
    assert.equal(receiver.requests.length, 0)
  })

  const sides = {
    'wants a client certificate, over TLS 1.2': [
      { requestCert: true, maxVersion: 'TLSv1.2' },
      'tls_client_certificate_required',
    ],
    'wants a client certificate, over TLS 1.3': [{ requestCert: true }, 'tls_client_certificate_required'],
    'has no cipher in common': [{ ciphers: 'PSK-AES128-GCM-SHA256', maxVersion: 'TLSv1.2' }, 'tls_failed'],
    'speaks only TLS 1.1': [
      { ciphers: 'ALL:@SECLEVEL=0', minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1' },
      'tls_failed',
    ],
  } as const
  for (const [what, [options, error]] of Object.entries(sides))
    test(`the error is ${error} if the other side ${what}`, async (context) => {
      const receiver = await startSecureReceiver(context, undefined, options)
      const sender = createSender(context, {
        allowPrivateNetworks: true,
        ca: CERTIFICATE,
        lookup: resolveTo('127.0.0.1'),
      })
      assertFailed(await sender.send(makeRequest(`https://receiver.test:${receiver.port}`)), error)
    })

  test("the error is tls_failed if the other side doesn't use TLS", async (context) => {
    const receiver = await startReceiver(context)
    const sender = createSender(context, { allowPrivateNetworks: true })
    assertFailed(await sender.send(makeRequest(`https://127.0.0.1:${receiver.port}`)), 'tls_failed')
  })

  for (const [what, reply] of Object.entries({
    'another protocol': 'SSH-2.0-OpenSSH_9.9\r\n',
    'headers of more than 16 KiB': `HTTP/1.1 200 OK\r\nX-Long: ${'a'.repeat(17_000)}\r\n\r\n`,
    'another protocol without a line end': '\0\0\0',
    'a header without a name': 'HTTP/1.1 200 OK\r\n: a\r\n\r\n',
    'a header with a NUL': 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n',
    'another protocol to go on with':
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
    'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'no status': 'HTTP/1.1 OK\r\n\r\n',
    'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
    'a status of zero': 'HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n',
    'a status below 100': 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n',
  })) {
    test(`the error is invalid_response if the response is ${what}`, async (context) => {
      const receiver = await startRawReceiver(context, replyWith(reply))
      const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
      assertFailed(answer, 'invalid_response')
      for (const socket of receiver.sockets) await closed(socket)
    })
  }

  test("the error is invalid_request if a header can't be written, and nothing is sent", async (context) => {
    const receiver = await startReceiver(context)
    const sender = createLocalSender(context)
    const headers: readonly [string, string][] = [
      ['X-Own', 'a\r\nX-Forged: b'],
      ['X-Own', 'a\nb'],
      ['X-Own', 'a\0b'],
      ['X-Own', '🏺'],
      ['X Own', 'a'],
      ['X-Own\r\nX-Forged', 'a'],
      ['', 'a'],
    ]
    for (const [name, value] of headers) {
      assertFailed(
        await sender.send(makeRequest(receiver.origin, { [name]: value })),
        'invalid_request',
        /header/,
      )
    }
    assert.equal(receiver.accepted, 0)
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
  })
})

describe('toSendError()', () => {
  const failure = (code: string) => Object.assign(new Error(`connect ${code}`), { code })

  test('toSendError() returns the most useful of the errors of several addresses', () => {
    const several: [codes: string[], expected: string][] = [
      [['ETIMEDOUT', 'ECONNREFUSED'], 'connection_refused'],
      [['ENETUNREACH', 'ETIMEDOUT'], 'timeout'],
      [['ENETUNREACH', 'EHOSTUNREACH'], 'connection_failed'],
    ]
    for (const [codes, expected] of several) {
      const { code, message } = toSendError(new AggregateError(codes.map(failure)), 'connection_failed')
      assert.equal(code, expected)
      assert.equal(message, codes.map((name) => `connect ${name}`).join('; '))
    }
  })

  test('toSendError() distinguishes TLS failures before and after the handshake', () => {
    const meanings: readonly [code: string, expected: string][] = [
      ['CERT_HAS_EXPIRED', 'tls_certificate_expired'],
      ['CERT_NOT_YET_VALID', 'tls_certificate_expired'],
      ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls_wrong_name'],
      ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls_untrusted'],
      ['SELF_SIGNED_CERT_IN_CHAIN', 'tls_untrusted'],
      ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls_client_certificate_required'],
      ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'tls_client_certificate_required'],
      ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls_failed'],
      ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'tls_failed'],
      ['EPROTO', 'tls_failed'],
    ]
    for (const [code, expected] of meanings)
      assert.equal(toSendError(failure(code), 'connection_failed').code, expected, code)
  })

  test('toSendError() converts any thrown value to a SendError', () => {
    for (const thrown of ['text', undefined, null, {}, new Error('bug'), failure('E_NEW')]) {
      assert.equal(toSendError(thrown, 'sender_failed').code, 'sender_failed')
    }
  })
})

describe('the body', () => {
  test('the body is read up to 4 KiB, so an endless one is a response, and its connection is closed', async (context) => {
    let written = 0
    const receiver = await startReceiver(context, (response) => {
      const chunk = Buffer.alloc(16_384, 'a')
      const write = () => {
        while (!response.destroyed && response.write(chunk)) written += chunk.length
      }
      response.on('drain', write)
      write()
    })
    const accepted = receiver.nextSocket()
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(answer.status, 200)
    assert.equal(answer.bodyExcerpt, 'a'.repeat(4096))
    await closed(await accepted)
    // This is what fits into the buffers of two sockets.
    assert.ok(written < 16 * 1024 * 1024, `${written} bytes`)
  })

  test('the body may stop after 4 KiB', async (context) => {
    const receiver = await startReceiver(context, (response) => response.write('b'.repeat(4096)))
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(answer.status, 200)
    assert.equal(answer.bodyExcerpt, 'b'.repeat(4096))
  })

  test("the body leaves its connection open for the next attempt if it's below 4 KiB", async (context) => {
    const receiver = await startReceiver(context, (response) => response.end('c'.repeat(4095)))
    const sender = createLocalSender(context)
    for (let count = 0; count < 2; count += 1) {
      assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, 'c'.repeat(4095))
    }
    assert.equal(receiver.accepted, 1)
  })

  test('the body is cut between characters', async (context) => {
    const receiver = await startReceiver(context, (response) => response.end(`a${'🏺'.repeat(2000)}`))
    const { bodyExcerpt } = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.equal(bodyExcerpt, `a${'🏺'.repeat(1023)}`)
  })
})
