import { createServer as createRawServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import { CERTIFICATE, PRIVATE_KEY } from './_receiver-certificate.ts'

/** An endless response. */
export interface Flood {
  readonly start: string
  /** The part that is repeated. */
  readonly unit: string | Buffer
  /** `true` if it's sent below TLS instead of a handshake. */
  readonly isRaw?: boolean
}

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

/** The known floods. undici would read each of them forever. */
export const FLOODS = {
  'early hints': { start: '', unit: 'HTTP/1.1 103 Early Hints\r\n\r\n' },
  'answers of 102': { start: '', unit: 'HTTP/1.1 102 Processing\r\n\r\n' },
  'a chunk extension': { start: `${CHUNKED}1;`, unit: 'a' },
  'a reason phrase': { start: 'HTTP/1.1 200 ', unit: 'a' },
  'blank lines': { start: '', unit: '\r\n' },
  'zeros of a chunk size': { start: CHUNKED, unit: '0' },
} satisfies Record<string, Flood>

/** More floods, which would block the event loop if parsed in large pieces. */
export const FURTHER_FLOODS = {
  'early hints with headers': {
    start: '',
    unit: `HTTP/1.1 103 Early Hints\r\nLink: </${'a'.repeat(8000)}>\r\n\r\n`,
  },
  'a header line': { start: 'HTTP/1.1 200 OK\r\nX-Long: ', unit: 'a' },
  'header lines': { start: 'HTTP/1.1 200 OK\r\n', unit: 'X: y\r\n' },
  'empty header lines': { start: 'HTTP/1.1 200 OK\r\n', unit: 'a:\r\n' },
  'headers that matter': { start: 'HTTP/1.1 200 OK\r\n', unit: 'Connection:a\r\n' },
  'trailer lines': { start: `${CHUNKED}0\r\n`, unit: 'X: y\r\n' },
  'small chunks with long extensions': { start: CHUNKED, unit: `1;${'a'.repeat(4000)}\r\na\r\n` },
} satisfies Record<string, Flood>

/** Hello Requests in TLS 1.2 records, which OpenSSL skips while it waits for the handshake. */
export const HELLO_REQUESTS: Flood = {
  start: '',
  unit: Buffer.concat([Buffer.from([22, 3, 3, 0x40, 0]), Buffer.alloc(0x4000)]),
  isRaw: true,
}

/** A server that responds to the first bytes with a flood, as fast as it's read. */
export function createFloodServer(flood: Flood, isSecure = false): Server {
  const onSocket = (socket: Socket): void => {
    socket.on('error', () => {}).once('data', () => pour(socket, flood))
  }
  if (!isSecure || flood.isRaw) return createRawServer(onSocket)
  return createSecureServer({ cert: CERTIFICATE, key: PRIVATE_KEY }, onSocket)
}

const BLOCK_BYTES = 64 * 1024

function pour(socket: Socket, { start, unit }: Flood): void {
  const one = Buffer.from(unit)
  const block = Buffer.concat(Array(Math.ceil(BLOCK_BYTES / one.length)).fill(one))
  // Sends one block per iteration of the event loop, so that a receiver in the same process can run.
  const write = (): void => {
    if (!socket.destroyed && socket.write(block)) setImmediate(write)
  }
  socket.on('drain', write)
  socket.write(start)
  write()
}
