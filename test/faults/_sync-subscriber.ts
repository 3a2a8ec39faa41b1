// A subscriber in a separate process, which remembers every event in a file and may be killed between any two bytes.
//
//   node --import tsx test/faults/_sync-subscriber.ts '{"port":…, "secret":"whsec_…", "path":"…"}'
//
// Prints `ready` when the process listens. Ends with the standard input.

import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { receiveWebhook, WebhookError } from '../../lib/client.ts'

/** The arguments of a subscriber. */
export interface SyncSubscriberConfig {
  readonly port: number
  readonly secret: string
  readonly path: string
}

/** A line of the file: an event that had not come before. */
export interface EventLine {
  readonly eventId: string
  readonly type: string
  readonly record: { readonly id: string }
}

const { port, secret, path } = JSON.parse(process.argv[2] ?? '{}') as SyncSubscriberConfig
const known = readKnown()

/** The ids of the events in the file. A line that the end of the program has cut is taken away. */
function readKnown(): Set<string> {
  if (!existsSync(path)) return new Set()
  const bytes = readFileSync(path)
  const end = bytes.lastIndexOf('\n') + 1
  truncateSync(path, end)
  const lines = bytes.subarray(0, end).toString().split('\n').filter(Boolean)
  return new Set(lines.map((line) => JSON.parse(line).eventId))
}

/** Takes an event; returns the status of the answer. */
async function take(request: IncomingMessage): Promise<number> {
  const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)])
  const body = new Uint8Array(await buffer(request))
  const asked = new Request('http://subscriber', {
    ...{ method: 'POST', headers: Object.fromEntries(headers), body },
  })
  try {
    const { event } = await receiveWebhook(asked, { secret })
    if (known.has(event.id)) return 204
    const record =
      event.type === 'client.created'
        ? event.data.client
        : event.type === 'lead.created'
          ? event.data.lead
          : null
    if (record === null) return 204
    const line: EventLine = { eventId: event.id, type: event.type, record }
    // Written before the answer, and remembered after the write.
    appendFileSync(path, `${JSON.stringify(line)}\n`)
    known.add(event.id)
    return 204
  } catch (error) {
    return error instanceof WebhookError ? error.status : 500
  }
}

createServer((request, response) => {
  take(request).then(
    (status) => response.writeHead(status).end(),
    // The request was cut.
    () => response.destroy(),
  )
}).listen(port, '127.0.0.1', () => console.log('ready'))
process.stdin.resume().on('end', () => process.exit())
