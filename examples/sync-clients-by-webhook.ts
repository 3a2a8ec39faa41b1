// Keeps a copy of the platform's clients using webhooks. For each client.created, it upserts the client by id and
// remembers the event. To get clients that were created earlier, use the polling variant, examples/sync-clients.ts.
//
//   SIGNING_SECRET=whsec_… PORT=4000 npx tsx examples/sync-clients-by-webhook.ts clients-by-webhook.json

import { realpathSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Client, Event } from 'business-api-kit'
import { receiveWebhook, WebhookError } from 'business-api-kit/webhooks'

/**
 * Retries arrive within minutes. If an event is repeated after its id was forgotten, it still can't overwrite anything
 * newer (see `asOf`).
 */
const EVENT_IDS_KEPT = 10_000

/** The clients and the ids of received events, which are written together. */
export interface Copy {
  readonly clients: Readonly<Record<string, { readonly asOf: string; readonly client: Client }>>
  readonly eventIds: readonly string[]
}

/** A copy in a JSON file. If you have a database, use two tables and a transaction. */
export interface CopyFile {
  read(): Copy
  /** Adds an event to the copy. If that fails, it rejects and nothing has changed. */
  take(event: Event): Promise<void>
}

/** Opens or creates the file. */
export async function openCopy(path: string): Promise<CopyFile> {
  let copy: Copy = JSON.parse(await readText(path, '{"clients":{},"eventIds":[]}'))
  let last: Promise<void> = Promise.resolve()

  async function write(event: Event): Promise<void> {
    const next = withEvent(copy, event)
    if (next === copy) return
    // Write to another file first, so that the copy is complete no matter when this process ends.
    await writeFile(`${path}.new`, JSON.stringify(next, null, 2), { flush: true })
    await rename(`${path}.new`, path)
    // Set this after writing. Otherwise an event would be lost if the disk fails.
    copy = next
  }

  return {
    read: () => copy,
    take(event) {
      // One write at a time, so that no change is overwritten. A second attempt of an event waits for the first.
      const taken = last.then(() => write(event))
      last = taken.catch(() => {})
      return taken
    },
  }
}

/** Returns the copy after an event. If the event is known or not relevant, that's the same copy. */
function withEvent(copy: Copy, event: Event): Copy {
  if (event.type !== 'client.created' || copy.eventIds.includes(event.id)) return copy
  const { client } = event.data
  const eventIds = [...copy.eventIds, event.id].slice(-EVENT_IDS_KEPT)
  // Events can arrive out of order. Keep the one that was created last.
  const isStale = event.createdAt < (copy.clients[client.id]?.asOf ?? '')
  const entry = { [client.id]: { asOf: event.createdAt, client } }
  return { clients: isStale ? copy.clients : { ...copy.clients, ...entry }, eventIds }
}

async function readText(path: string, fallback: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return fallback
  })
}

/**
 * Creates a subscriber that responds with 2xx if the event is in the copy, 5xx if it couldn't be written, and 4xx if
 * the request isn't a verified event.
 */
export function createSubscriber(secret: string, copy: Pick<CopyFile, 'take'>): Server {
  return createServer(async (request, response) => {
    const status = await receive(request, secret, copy).catch((error) => {
      console.error(`Cannot take a webhook: ${error}`)
      return error instanceof WebhookError ? error.status : 500
    })
    response.writeHead(status).end()
  })
}

async function receive(
  request: IncomingMessage,
  secret: string,
  copy: Pick<CopyFile, 'take'>,
): Promise<number> {
  const { event } = await receiveWebhook(request, { secret })
  await copy.take(event)
  return 204
}

/** Expected failures don't need a stack trace. */
function fail(line: string): never {
  console.error(line)
  process.exit(2)
}

async function main(): Promise<void> {
  const { SIGNING_SECRET, PORT = '4000' } = process.env
  const [path] = process.argv.slice(2)
  if (!SIGNING_SECRET || !path) {
    fail('Usage: SIGNING_SECRET=whsec_… npx tsx examples/sync-clients-by-webhook.ts FILE')
  }
  const server = createSubscriber(SIGNING_SECRET, await openCopy(path))
  server.listen(Number(PORT), () => console.log('Listening on', server.address()))
  process.once('SIGTERM', () => server.close())
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
