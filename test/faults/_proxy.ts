import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** The network between a store and the database. */
export interface NetworkProxy {
  /** The connection string of the database, by way of the proxy. */
  readonly url: string
  /** The open connections, including silent connections. */
  readonly size: number
  /** The pieces that clients have sent so far: on a connection with one statement at a time, one for each statement. */
  readonly sent: number
  /** Holds back everything in both directions and keeps all connections open; new connections are accepted and held back too. */
  fallSilent(): void
  /** From now on a connection falls silent for good, by itself, when the client says a text. */
  silenceAt(text: string): void
  /** From now on each piece of an answer is held back for a time, in milliseconds: 0 for a network without delay. */
  delay(ms: number): void
  /** From now on each piece of an answer comes in up to eight parts, which end anywhere. */
  fragment(): void
  /** From now on a connection ends within a piece of an answer, for this share of the pieces. */
  cut(share: number): void
  /** Forwards the held bytes, and goes on. */
  speak(): void
  /** Forwards on new connections; open connections stay silent for good. */
  speakOnNewConnections(): void
  /** Breaks all connections, as a machine does that has been started anew. */
  reset(): void
  /** Breaks all connections and refuses new ones, as a machine does without the server. */
  refuse(): Promise<void>
  /** Takes connections again, on the same port. */
  accept(): Promise<void>
  close(): Promise<void>
}

/** Starts a proxy on a free port of this machine. */
export async function startProxy(databaseUrl: string): Promise<NetworkProxy> {
  const target = new URL(databaseUrl)
  const pairs = new Set<Pair>()
  let delayMs = 0
  let isSilent = false
  let sent = 0
  let silencing: string | undefined
  let isFragmented = false
  let cutShare = 0

  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port: Number(target.port), host: target.hostname, noDelay: true })
    const answers = new Transform({
      async transform(piece: Buffer, _encoding, done) {
        if (Math.random() < cutShare) {
          near.end(piece.subarray(0, Math.random() * piece.length))
          far.destroy()
        } else if (isFragmented) {
          for (const part of partsOf(piece)) {
            this.push(part)
            await nextTurn()
          }
          done()
        } else if (delayMs === 0) done(null, piece)
        else setTimeout(done, delayMs, null, piece)
      },
    })
    const pair = [near, far, answers] as const
    pairs.add(pair)
    near.on('data', (data: Buffer) => {
      sent++
      if (silencing === undefined || !data.includes(silencing)) return
      hold(pair)
    })
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      socket
        .on('error', () => {})
        .on('close', () => {
          pairs.delete(pair)
          other.destroy()
        })
    }
    answers.pipe(near)
    forward(pair)
    if (isSilent) hold(pair)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: urlWithPort(target, port),
    get size() {
      return pairs.size
    },
    get sent() {
      return sent
    },
    fallSilent() {
      isSilent = true
      for (const pair of pairs) hold(pair)
    },
    silenceAt(text) {
      silencing = text
    },
    speak() {
      isSilent = false
      for (const pair of pairs) forward(pair)
    },
    delay(ms) {
      delayMs = ms
    },
    fragment() {
      isFragmented = true
    },
    cut(share) {
      cutShare = share
    },
    speakOnNewConnections() {
      isSilent = false
    },
    reset() {
      for (const [near] of pairs) breakConnection(near)
    },
    async refuse() {
      server.close()
      for (const [near, far] of pairs) {
        breakConnection(near)
        far.destroy()
      }
      await once(server, 'close')
    },
    async accept() {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
    },
    async close() {
      for (const [near, far] of pairs) {
        near.destroy()
        far.destroy()
      }
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Breaks a connection, as a machine does that has been started anew. A reset of a socket that has begun to end is refused, and Node.js
 * then never frees the socket: the process would run at full speed instead of ending.
 */
export function breakConnection(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

/** Up to eight parts of a piece. */
function* partsOf(piece: Buffer): Generator<Buffer> {
  const ends = Array.from({ length: 7 }, () => Math.ceil(Math.random() * piece.length))
  let from = 0
  for (const end of [...ends.sort((one, other) => one - other), piece.length]) {
    if (end > from) yield piece.subarray(from, end)
    from = end
  }
}

type Pair = readonly [near: Socket, far: Socket, answers: Transform]

function forward([near, far, answers]: Pair): void {
  // A second pipe would forward everything twice.
  near.unpipe(far).pipe(far)
  far.unpipe(answers).pipe(answers)
}

function hold([near, far, answers]: Pair): void {
  near.unpipe(far).pause()
  far.unpipe(answers).pause()
}

function urlWithPort(target: URL, port: number): string {
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return url.href
}
