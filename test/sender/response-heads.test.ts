import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closed, startRawReceiver } from './_receiver.ts'
import { assertFailed, createLocalSender, makeRequest } from './_setup.ts'

/** A response that a receiver sends to each request. */
interface Case {
  readonly response: string
  readonly status?: number
  readonly excerpt?: string
  /** The number of connections needed for two attempts. Defaults to 1. */
  readonly connections?: number
  /** Whether the receiver closes the connection after the response. */
  readonly isClosing?: boolean
}

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

const CASES: Readonly<Record<string, Case>> = {
  'a 100 Continue that nobody asked for': { response: `HTTP/1.1 100 Continue\r\n\r\n${OK}` },
  'a 100 Continue with headers, and a 103 behind': {
    response: `HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}`,
  },
  'sixteen 100 Continue': { response: 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(16) + OK },
  'a 204 with a length of zero': {
    response: 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n',
    status: 204,
    excerpt: '',
  },
  'a 204 with a length and no body': {
    response: 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n',
    status: 204,
    excerpt: '',
    connections: 2,
  },
  'a 204 with a body': {
    response: 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}',
    status: 204,
    excerpt: '',
    connections: 2,
  },
  'a 204 in chunks': {
    response: 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    status: 204,
    excerpt: '',
    connections: 2,
  },
  'a 304 with a length': {
    response: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
    status: 304,
    excerpt: '',
    connections: 2,
  },
  'equal lengths in two headers': {
    response: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok',
  },
  'equal lengths in one header': { response: 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok' },
  'equal lengths in two headers, the last in the next piece': {
    response: `HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: ${'a'.repeat(5000)}\r\nContent-Length: 2\r\n\r\nok`,
  },
  'different lengths': {
    response: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok',
    connections: 2,
    isClosing: true,
  },
  'a length that is no number': {
    response: 'HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok',
    connections: 2,
    isClosing: true,
  },
  'an empty length': {
    response: 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok',
    connections: 2,
    isClosing: true,
  },
  'a length beyond all numbers': {
    response: `HTTP/1.1 200 OK\r\nContent-Length: ${'9'.repeat(30)}\r\n\r\nok`,
    connections: 2,
    isClosing: true,
  },
  'chunks beside a length': {
    response:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    connections: 2,
  },
  'chunks of several codings': {
    response: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  },
  'chunks that are announced twice': {
    response:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  },
  'a coding without chunks': {
    response: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok',
    connections: 2,
    isClosing: true,
  },
  'line feeds alone': { response: 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok' },
  'a folded header': { response: 'HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\tc\r\nContent-Length: 2\r\n\r\nok' },
  'a space before the colon': { response: 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok' },
  'no reason': { response: 'HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok' },
  'a reason with other characters': {
    response: 'HTTP/1.1 200 D\u00e9j\u00e0\r\nX-A: \u00e9\r\nContent-Length: 2\r\n\r\nok',
  },
  'HTTP/1.0': { response: 'HTTP/1.0 200 OK\r\n\r\nok', connections: 2, isClosing: true },
  'an upgrade on offer': {
    response: 'HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nok',
  },
  'a blank line before': { response: `\r\n${OK}` },
  'a status of 299': { response: OK.replace('200', '299'), status: 299 },
  'a status of 999': { response: OK.replace('200', '999'), status: 999 },
  'a body that ends early': {
    response: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok',
    connections: 2,
    isClosing: true,
  },
  'a body in chunks that ends early': {
    response: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok',
    connections: 2,
    isClosing: true,
  },
  'a chunk without a size': {
    response: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
    excerpt: '',
    connections: 2,
  },
  'a failure whose body ends early': {
    response: 'HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\nok',
    status: 429,
    connections: 2,
    isClosing: true,
  },
}

for (const [what, { response, status = 200, excerpt = 'ok', connections = 1, isClosing }] of Object.entries(
  CASES,
))
  for (const speed of ['at once', 'byte by byte'] as const)
    test(`a response with ${what} is read, ${speed}, with ${connections} connections for two attempts`, async (context) => {
      const receiver = await startRawReceiver(context, (socket) => {
        socket.on('data', async () => {
          const bytes = Buffer.from(response, 'latin1')
          const pieces = speed === 'at once' ? [bytes] : [...bytes].map((byte) => Uint8Array.of(byte))
          for (const piece of pieces) {
            socket.write(piece)
            if (speed !== 'at once') await new Promise(setImmediate)
          }
          if (isClosing) socket.end()
        })
      })
      const sender = createLocalSender(context)
      for (let attempt = 0; attempt < 2; attempt += 1) {
        const answer = await sender.send(makeRequest(receiver.origin))
        assert.deepEqual(
          [answer.status, answer.error, answer.bodyExcerpt],
          [status, null, excerpt],
          answer.detail ?? '',
        )
        assert.equal(answer.retryAfterMs, status === 429 ? 7000 : null)
        assert.ok(answer.timings?.firstByteMs)
        if (connections === 2) for (const socket of receiver.sockets) await closed(socket)
      }
      assert.equal(receiver.accepted, connections)
    })

for (const [what, end] of Object.entries({ 'only spaces and a NUL': '\0', 'spaces before a NUL': 'a\0' }))
  test(`a header of ${what} takes no time to read`, async (context) => {
    // A head may have 16 KiB. Even a few of these bytes would block the process for seconds.
    const head = `HTTP/1.1 200 OK\r\nX-A:${' '.repeat(3000)}${end}\r\n\r\n`
    const receiver = await startRawReceiver(context, (socket) => {
      socket.on('data', () => socket.end(head))
    })
    const sender = createLocalSender(context)
    await sender.send(makeRequest(receiver.origin))
    const before = process.cpuUsage()
    assertFailed(await sender.send(makeRequest(receiver.origin)), 'invalid_response')
    const { user } = process.cpuUsage(before)
    assert.ok(user < 500_000, `${user} µs`)
  })
