import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

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
  const pairs = new Set<readonly [Socket, Socket]>()
  let isSilent = false
  let sent = 0
  let silencing: string | undefined

  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname)
    const pair = [near, far] as const
    pairs.add(pair)
    near.on('data', (data: Buffer) => {
      sent++
      if (silencing === undefined || !data.includes(silencing)) return
      near.unpipe(far).pause()
      far.unpipe(near).pause()
    })
    for (const [from, to] of [pair, [far, near] as const]) {
      from
        .on('error', () => {})
        .on('close', () => {
          pairs.delete(pair)
          to.destroy()
        })
      from.pipe(to)
      if (isSilent) from.unpipe(to).pause()
    }
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
      for (const [near, far] of pairs) {
        near.unpipe(far).pause()
        far.unpipe(near).pause()
      }
    },
    silenceAt(text) {
      silencing = text
    },
    speak() {
      isSilent = false
      for (const [near, far] of pairs) {
        near.pipe(far)
        far.pipe(near)
      }
    },
    speakOnNewConnections() {
      isSilent = false
    },
    reset() {
      for (const [near] of pairs) near.resetAndDestroy()
    },
    async refuse() {
      server.close()
      for (const [near, far] of pairs) {
        near.resetAndDestroy()
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

function urlWithPort(target: URL, port: number): string {
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return url.href
}
