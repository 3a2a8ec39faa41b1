import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { createServer as createSecureServer } from 'node:tls'
import { createReadingTurns, EXCHANGE_MAX_BYTES, STEP_MAX_BYTES } from '../../lib/sender/metered-socket.ts'
import { createFloodServer, FLOODS, type Flood, FURTHER_FLOODS, HELLO_REQUESTS } from './_floods.ts'
import { closed, replyWith, startRawReceiver, startReceiver } from './_receiver.ts'
import { CERTIFICATE, PRIVATE_KEY } from './_receiver-certificate.ts'
import { assertFailed, createLocalSender, createSender, makeRequest } from './_setup.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
/** How many bytes a destroyed socket may have read, which is up to the end of a piece and another one. */
const READ_AHEAD_BYTES = 2 * 2048
/**
 * The overhead of TLS, which includes the handshake, tickets, and a record that can't be decrypted until it's complete.
 */
const TLS_BYTES = 32 * 1024

/** Collects the client's sockets to a port in the order in which they were created. */
function watchSockets(context: TestContext, port: number): Socket[] {
  const sockets: Socket[] = []
  const add = (message: unknown): void => {
    const { socket } = message as { socket: Socket }
    socket.once('connect', () => {
      if (socket.remotePort === port) sockets.push(socket)
    })
  }
  subscribe('net.client.socket', add)
  context.after(() => unsubscribe('net.client.socket', add))
  return sockets
}

async function startFlood(context: TestContext, flood: Flood, isSecure = false): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createFloodServer(flood, isSecure).on('connection', (socket) => sockets.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  context.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

// --- Endless responses ---

describe('a flood', () => {
  for (const isSecure of [false, true]) {
    const protocol = isSecure ? 'https' : 'http'
    for (const [what, flood] of Object.entries<Flood>({ ...FLOODS, ...FURTHER_FLOODS })) {
      test(`a flood of ${what} (${protocol}) ends the attempt after a few bytes`, async (context) => {
        const port = await startFlood(context, flood, isSecure)
        const sockets = watchSockets(context, port)
        const sender = createLocalSender(context, { ca: CERTIFICATE })
        const answer = await sender.send(makeRequest(`${protocol}://127.0.0.1:${port}`))
        const isOfBytes = what === 'small chunks with long extensions'
        // Once a head has arrived, it's the response, whatever follows.
        if (flood.start.includes('\r\n\r\n')) assert.deepEqual([answer.status, answer.error], [200, null])
        else
          assertFailed(
            answer,
            'invalid_response',
            /without a part of a response|more than 16 interim responses|Headers Overflow/,
          )
        const [socket] = sockets
        assert.ok(socket)
        const most = isOfBytes
          ? EXCHANGE_MAX_BYTES
          : // Each interim answer is an advance.
            STEP_MAX_BYTES * (what === 'early hints with headers' ? 9 : 1)
        const bound = most + READ_AHEAD_BYTES + (isSecure ? TLS_BYTES : 0)
        assert.ok(socket.bytesRead <= bound, `${socket.bytesRead} bytes`)
        await closed(socket)
        assert.equal(sockets.length, 1)
      })
    }
  }

  test('a flood instead of a handshake ends the attempt after 1 MiB', async (context) => {
    const port = await startFlood(context, HELLO_REQUESTS)
    const sockets = watchSockets(context, port)
    const answer = await createLocalSender(context).send(makeRequest(`https://127.0.0.1:${port}`))
    assertFailed(answer, 'invalid_response', /more than 1048576 bytes/)
    assert.equal(answer.timings?.tlsMs, null)
    const [socket] = sockets
    assert.ok(
      socket && socket.bytesRead <= EXCHANGE_MAX_BYTES + READ_AHEAD_BYTES,
      `${socket?.bytesRead} bytes`,
    )
    await closed(socket)
  })

  test("floods of each kind on 16 endpoints don't prevent the other endpoints from responding", async (context) => {
    const ports = await Promise.all(Object.values<Flood>(FLOODS).map((flood) => startFlood(context, flood)))
    const receiver = await startReceiver(context)
    const sender = createLocalSender(context)
    const floods = ports.flatMap((port) =>
      Array.from({ length: 16 }, (_, index) => sender.send(makeRequest(`http://127.0.0.1:${port}/${index}`))),
    )
    for (let count = 0; count < 50; count += 1) {
      assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    }
    for (const { status, error } of await Promise.all(floods))
      assert.ok(status === 200 || error === 'invalid_response', String(error))
  })

  test('requests to renegotiate TLS are ignored', async (context) => {
    let handshakes = 0
    const server = createSecureServer(
      { cert: CERTIFICATE, key: PRIVATE_KEY, maxVersion: 'TLSv1.2' },
      (socket) => {
        socket.on('error', () => socket.destroy()).once('data', () => socket.renegotiate({}, () => {}))
        socket.on('secure', () => {
          handshakes += 1
        })
      },
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    context.after(() => server.close())
    const { port } = server.address() as AddressInfo
    const sender = createSender(context, { allowPrivateNetworks: true, ca: CERTIFICATE })
    assertFailed(await sender.send(makeRequest(`https://127.0.0.1:${port}`)), 'tls_failed')
    assert.equal(handshakes, 0)
  })
})

describe('interim responses', () => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'

  test('interim responses: 16 are allowed before the response', async (context) => {
    const receiver = await startRawReceiver(context, replyWith(hint.repeat(16) + OK))
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
    assert.deepEqual([answer.status, answer.bodyExcerpt], [200, 'ok'], answer.detail ?? '')
  })

  test('interim responses: 17 are invalid before any response and at any speed', async (context) => {
    const atOnce = (socket: Socket): void => void socket.write(hint.repeat(17) + OK)
    const slowly = async (socket: Socket): Promise<void> => {
      for (let count = 0; count < 17 && !socket.destroyed; count += 1) {
        socket.write(hint)
        await new Promise(setImmediate)
      }
      if (!socket.destroyed) socket.write(OK)
    }
    for (const react of [atOnce, slowly]) {
      const receiver = await startRawReceiver(context, (socket) => socket.once('data', () => react(socket)))
      const answer = await createLocalSender(context).send(makeRequest(receiver.origin))
      assertFailed(answer, 'invalid_response', /^more than 16 interim responses$/)
      for (const socket of receiver.sockets) await closed(socket)
    }
  })

  test('interim responses are counted from zero for each attempt on a connection', async (context) => {
    const receiver = await startRawReceiver(context, (socket) =>
      socket.on('data', () => socket.write(hint.repeat(16) + OK)),
    )
    const sender = createLocalSender(context)
    for (let count = 0; count < 3; count += 1) {
      assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    }
    assert.equal(receiver.accepted, 1)
  })
})

describe('a large response that ends', () => {
  for (const isSecure of [false, true]) {
    const protocol = isSecure ? 'https' : 'http'
    test(`15 KiB of headers and a body of 4095 bytes are read completely, bit by bit and at once (${protocol})`, async (context) => {
      const headers = Array.from({ length: 15 }, (_, index) => `X-${index}: ${'a'.repeat(1000)}\r\n`).join('')
      const text = `HTTP/1.1 200 OK\r\n${headers}Content-Length: 4095\r\n\r\n${'b'.repeat(4095)}`
      const drop = async (socket: Socket): Promise<void> => {
        for (let at = 0; at < text.length; at += 100) {
          socket.write(text.slice(at, at + 100))
          await new Promise(setImmediate)
        }
      }
      for (const react of [drop, (socket: Socket) => void socket.write(text)]) {
        const onSocket = (socket: Socket): void =>
          void socket.on('error', () => {}).on('data', () => react(socket))
        const server = isSecure
          ? createSecureServer({ cert: CERTIFICATE, key: PRIVATE_KEY }, onSocket)
          : undefined
        const receiver = await startRawReceiver(context, (socket) =>
          server ? server.emit('connection', socket) : onSocket(socket),
        )
        const sender = createLocalSender(context, { ca: CERTIFICATE })
        for (let count = 0; count < 3; count += 1) {
          const answer = await sender.send(makeRequest(`${protocol}://127.0.0.1:${receiver.port}`))
          assert.deepEqual([answer.status, answer.bodyExcerpt.length], [200, 4095], answer.detail ?? '')
        }
        assert.equal(receiver.accepted, 1)
      }
    })
  }
})

// --- Between two exchanges ---

describe('an idle connection', () => {
  const forged = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged'

  for (const [what, bytes] of Object.entries({
    'an answer': forged,
    'the beginning of an answer': 'HTTP/1.1 2',
    'blank lines': '\r\n\r\n',
    'an interim answer': 'HTTP/1.1 103 Early Hints\r\n\r\n',
    'anything else': '\0',
  })) {
    test(`an idle connection is closed if ${what} arrives, which isn't treated as a response`, async (context) => {
      const receiver = await startRawReceiver(context, replyWith(OK))
      const sender = createLocalSender(context)
      assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, 'ok')
      const [socket] = receiver.sockets
      assert.ok(socket)
      socket.write(bytes)
      await closed(socket)
      assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, 'ok')
      assert.equal(receiver.accepted, 2)
    })

    test(`an attempt that starts just after ${what} has arrived uses another connection`, async (context) => {
      let count = 0
      const receiver = await startRawReceiver(context, (socket) => {
        count += 1
        const body = String(count)
        socket.once('data', () => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n${body}`))
      })
      const sender = createLocalSender(context)
      assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, '1')
      for (const socket of receiver.sockets) socket.write(bytes)
      // When write() returns, the system has the bytes. The sender has them after the event loop has polled again.
      for (let pass = 0; pass < 2; pass += 1) await new Promise(setImmediate)
      assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, '2')
      assert.equal(receiver.accepted, 2)
    })
  }

  test('an idle connection is closed if a response was followed by another one', async (context) => {
    let count = 0
    const receiver = await startRawReceiver(context, (socket) => {
      count += 1
      const isFirst = count === 1
      socket.once('data', () => socket.write(isFirst ? OK + forged.repeat(1000) : OK))
    })
    const sender = createLocalSender(context)
    assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, 'ok')
    assert.equal((await sender.send(makeRequest(receiver.origin))).bodyExcerpt, 'ok')
    assert.equal(receiver.accepted, 2)
  })

  test('an idle connection is closed if encrypted bytes arrive', async (context) => {
    const server = createSecureServer({ cert: CERTIFICATE, key: PRIVATE_KEY }, (socket) => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.write(OK)
          setTimeout(() => socket.write('\r\n'), 20)
        })
    })
    const receiver = await startRawReceiver(context, (socket) => server.emit('connection', socket), 'https')
    const sender = createLocalSender(context, { ca: CERTIFICATE })
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    for (const socket of receiver.sockets) await closed(socket)
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    assert.equal(receiver.accepted, 2)
  })
})

// --- Turns ---

describe('createReadingTurns()', () => {
  test('reading waits for a later phase of the event loop and happens in order', async () => {
    const turns = createReadingTurns()
    const done: number[] = []
    for (const piece of [1, 2, 3]) turns.wait(() => done.push(piece))
    await Promise.resolve()
    assert.deepEqual(done, [])
    while (done.length < 3) await new Promise(setImmediate)
    assert.deepEqual(done, [1, 2, 3])
  })

  test('long reading lets the event loop do other work after each piece', async () => {
    const turns = createReadingTurns()
    const events: string[] = []
    for (const piece of ['a', 'b', 'c']) {
      turns.wait(() => {
        events.push(piece)
        const until = performance.now() + 2
        // In the next tick, which is when streams parse.
        process.nextTick(() => {
          while (performance.now() < until);
        })
      })
    }
    while (events.filter((event) => event !== 'loop').length < 3) {
      await new Promise(setImmediate)
      events.push('loop')
    }
    assert.doesNotMatch(events.join(' '), /[abc] [abc]/)
  })
})
