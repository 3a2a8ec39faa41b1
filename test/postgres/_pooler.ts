import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

// A pooler in transaction mode that is as strict as PgBouncer is by default. A client gets a server connection with its
// first message and keeps it until the end of the transaction. The next transaction gets another connection, and
// unknown startup parameters are rejected. So session settings never reach the next statement, whereas with a real
// pooler they might by luck.

/** A running pooler. */
export interface Pooler {
  /** Connection string that goes through the pooler. */
  readonly url: string
  close(): Promise<void>
}

interface Server {
  readonly socket: Socket
  client: Client | null
}

interface Client {
  readonly socket: Socket
  server: Server | null
  /** Messages waiting for a server connection. */
  held: Buffer[]
  /** Number of queries that haven't been answered yet. */
  unanswered: number
}

const SSL_REQUEST = 80877103
const PROTOCOL_3 = 196608
const PARAMETERS_KNOWN = new Set(['user', 'database', 'client_encoding', 'application_name'])

/**
 * Starts a pooler on a free port.
 *
 * @param databaseUrl a server that doesn't need a password
 * @param size number of server connections
 */
export async function startPooler(databaseUrl: string, size: number): Promise<Pooler> {
  const target = new URL(databaseUrl)
  const clients = new Set<Client>()
  const waiting: Client[] = []
  const idle: Server[] = []
  const servers = new Set<Server>()
  let isClosed = false

  async function openServer(): Promise<void> {
    const socket = connect({ port: Number(target.port), host: target.hostname, noDelay: true }).on(
      'error',
      () => {},
    )
    const server: Server = { socket, client: null }
    servers.add(server)
    socket.on('close', () => {
      servers.delete(server)
      server.client?.socket.destroy()
      if (!isClosed) void openServer()
    })
    let isReady = false
    let whenReady = (): void => {}
    const ready = new Promise<void>((resolve) => {
      whenReady = resolve
    })
    const read = createReader((type, message) => {
      if (!isReady) {
        if (type === 'Z') {
          isReady = true
          release(server)
          whenReady()
        }
        return
      }
      const { client } = server
      if (client === null) return
      client.socket.write(message)
      if (type !== 'Z') return
      client.unanswered--
      if (client.unanswered === 0 && message.toString('latin1', 5, 6) === 'I') {
        client.server = null
        release(server)
      }
    })
    socket.on('data', read)
    socket.write(startup({ user: target.username, database: target.pathname.slice(1) }))
    await ready
  }

  function release(server: Server): void {
    server.client = null
    const next = waiting.shift()
    if (next === undefined) idle.push(server)
    else assign(next, server)
  }

  function assign(client: Client, server: Server): void {
    client.server = server
    server.client = client
    for (const message of client.held.splice(0)) server.socket.write(message)
  }

  function accept(socket: Socket): void {
    const client: Client = { socket, server: null, held: [], unanswered: 0 }
    clients.add(client)
    socket.on('error', () => {})
    socket.on('close', () => {
      clients.delete(client)
      const place = waiting.indexOf(client)
      if (place !== -1) waiting.splice(place, 1)
      // It's in the middle of a transaction, so the server connection is closed too.
      client.server?.socket.destroy()
    })
    const read = createReader((type, message) => {
      if (type === 'X') return void socket.end()
      if (type === 'Q' || type === 'S') client.unanswered++
      if (client.server) return void client.server.socket.write(message)
      client.held.push(message)
      if (client.held.length > 1) return
      const server = idle.shift()
      if (server === undefined) waiting.push(client)
      else assign(client, server)
    })
    let isStarted = false
    socket.on('data', (data: Buffer) => {
      if (isStarted) return read(data)
      const code = data.readInt32BE(4)
      if (code === SSL_REQUEST) return void socket.write('N')
      if (code !== PROTOCOL_3) return void socket.destroy()
      isStarted = true
      greet(socket, data)
    })
  }

  const listener = createServer({ noDelay: true }, accept).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  await Promise.all(Array.from({ length: size }, openServer))
  const url = new URL(databaseUrl)
  url.port = String((listener.address() as AddressInfo).port)
  return {
    url: url.href,
    async close() {
      isClosed = true
      for (const { socket } of [...clients, ...servers]) socket.destroy()
      listener.close()
      await once(listener, 'close')
    },
  }
}

function greet(socket: Socket, data: Buffer): void {
  const words = data.toString('utf8', 8).split('\0')
  const names = words.filter((_, index) => index % 2 === 0).filter((name) => name !== '')
  const unknown = names.find((name) => !PARAMETERS_KNOWN.has(name))
  if (unknown !== undefined) {
    const text = `SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: ${unknown}\0\0`
    socket.end(message('E', Buffer.from(text)))
    return
  }
  socket.write(message('R', Buffer.from([0, 0, 0, 0])))
  socket.write(message('S', Buffer.from('server_version\x0018.0\0')))
  socket.write(message('K', Buffer.alloc(8)))
  socket.write(message('Z', Buffer.from('I')))
}

function startup(parameters: Readonly<Record<string, string>>): Buffer {
  const text = `${Object.entries(parameters).flat().join('\0')}\0\0`
  const head = Buffer.alloc(8)
  head.writeInt32BE(8 + Buffer.byteLength(text), 0)
  head.writeInt32BE(PROTOCOL_3, 4)
  return Buffer.concat([head, Buffer.from(text)])
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type, 0, 'latin1')
  head.writeInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}

/** Splits a stream into protocol messages. */
function createReader(onMessage: (type: string, message: Buffer) => void): (data: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (data) => {
    rest = Buffer.concat([rest, data])
    while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
      const length = 1 + rest.readInt32BE(1)
      const whole = rest.subarray(0, length)
      rest = rest.subarray(length)
      onMessage(whole.toString('latin1', 0, 1), whole)
    }
  }
}
