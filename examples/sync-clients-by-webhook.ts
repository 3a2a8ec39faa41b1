// Keeps a copy of the platform's clients by webhooks: upserts the client of each client.created by its id, and
// remembers the received events. Clients created before are fetched by the polling twin, examples/sync-clients.ts.
//
//   SIGNING_SECRET=whsec_… PORT=4000 npx tsx examples/sync-clients-by-webhook.ts clients-by-webhook.json

import { realpathSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Client, Event } from 'business-api-kit'
import { receiveWebhook, WebhookError } from 'business-api-kit/webhooks'

/** A retry comes within minutes. A repeated event whose id was forgotten still overwrites nothing newer: see `asOf`. */
const EVENT_IDS_KEPT = 10_000

/** The clients with the ids of the received events: both are written together. */
export interface Copy {
  readonly clients: Readonly<Record<string, { readonly asOf: string; readonly client: Client }>>
  readonly eventIds: readonly string[]
}

/** A copy in one JSON file. With a database: two tables and one transaction. */
export interface CopyFile {
  read(): Copy
  /** Takes an event into the copy. Rejects when that could not be written, and then nothing has changed. */
  take(event: Event): Promise<void>
}

/** Opens the file, or begins a new file. */
export async function openCopy(path: string): Promise<CopyFile> {
  let copy: Copy = JSON.parse(await readText(path, '{"clients":{},"eventIds":[]}'))
  let last: Promise<void> = Promise.resolve()

  async function write(event: Event): Promise<void> {
    const next = withEvent(copy, event)
    if (next === copy) return
    // Another file first: whenever this process ends, the copy is whole.
    await writeFile(`${path}.new`, JSON.stringify(next, null, 2), { flush: true })
    await rename(`${path}.new`, path)
    // Set after the write: an event remembered before the write would be lost with a failing disk.
    copy = next
  }

  return {
    read: () => copy,
    take(event) {
      // One write at a time, so that no write is overwritten. A second attempt of an event waits for the result of the
      // first.
      const taken = last.then(() => write(event))
      last = taken.catch(() => {})
      return taken
    },
  }
}

/** The copy after an event; the same copy when the event is known or of no concern. */
function withEvent(copy: Copy, event: Event): Copy {
  if (event.type !== 'client.created' || copy.eventIds.includes(event.id)) return copy
  const { client } = event.data
  const eventIds = [...copy.eventIds, event.id].slice(-EVENT_IDS_KEPT)
  // Events may overtake each other: the event created last stands.
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
 * Answers 2xx when the event is in the copy, 5xx when the event could not be written, 4xx to a request that is not a
 * verified event.
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

/** An expected failure needs no stack: one line. */
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
