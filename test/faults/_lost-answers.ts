import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { breakConnection } from './_proxy.ts'

/** A network that loses answers of the database. */
export interface LossyProxy {
  /** The connection string of the database, by way of the proxy. */
  readonly url: string
  /** The number of lost answers. */
  readonly lost: number
  /** Breaks the connection in place of the answer to the next statement that holds a text. */
  loseAnswerTo(text: string): void
  close(): Promise<void>
}

/** Starts a proxy on a free port of this machine. */
export async function startLossyProxy(databaseUrl: string): Promise<LossyProxy> {
  const target = new URL(databaseUrl)
  let marker: string | null = null
  let lost = 0

  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port: Number(target.port), host: target.hostname, noDelay: true })
    let isDoomed = false
    near.on('data', (chunk) => {
      if (marker !== null && chunk.includes(marker)) {
        isDoomed = true
        marker = null
      }
      far.write(chunk)
    })
    far.on('data', (chunk) => {
      if (!isDoomed) return void near.write(chunk)
      // The server sends the answer at the end of the statement, so the statement is committed by now.
      lost++
      breakConnection(near)
      far.destroy()
    })
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      socket.on('error', () => {}).on('close', () => other.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    get lost() {
      return lost
    },
    loseAnswerTo(text) {
      marker = text
    },
    async close() {
      server.close()
      await once(server, 'close')
    },
  }
}
