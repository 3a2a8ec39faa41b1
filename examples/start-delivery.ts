// Starts a workflow once for each signed proposal and completed project. Events are written to a log before responding,
// so that repeated events are recognized and none are lost if the process ends. After that, we keep trying to start the
// workflow under the event's id until the workflow service has accepted or rejected it.
//
//   SIGNING_SECRET=whsec_… WORKFLOWS_URL=https://tracker.example/workflows PORT=4000 \
//     npx tsx examples/start-delivery.ts deliveries.ndjson

import { realpathSync } from 'node:fs'
import { appendFile, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Event } from 'business-api-kit'
import { receiveWebhook, WebhookError } from 'business-api-kit/webhooks'

const TIMEOUT_MS = 10_000
const PAUSE_MS = 10_000
/** Maximum number of concurrent requests to the workflow service. After an outage, hundreds may be waiting. */
const REQUESTS_MAX = 8
/** Statuses that may be temporary: too slow, still busy with the same key, too early, too often. */
const TRANSIENT: readonly number[] = [408, 409, 425, 429]

/** A workflow to start. */
export interface Workflow {
  readonly kind: 'kick-off' | 'handover'
  /** The id of the proposal or project. */
  readonly subjectId: string
  readonly title: string
}

/** Returns the workflow to start for an event, or `null` if there is none. */
export function workflowOf(event: Event): Workflow | null {
  if (event.type === 'proposal.accepted') {
    const { proposalId, number, proposal } = event.data
    return { kind: 'kick-off', subjectId: proposalId, title: `${number} ${proposal.title}` }
  }
  if (event.type === 'project.completed') {
    return { kind: 'handover', subjectId: event.data.projectId, title: event.data.name }
  }
  return null
}

/**
 * A log with one line for each event received, and another once its workflow was started or rejected. If you have a
 * database, use a table.
 */
export interface Log {
  /** Workflows that hadn't been started when the log was opened, by event id. */
  readonly unfinished: ReadonlyMap<string, Workflow>
  /**
   * Resolves when the event is on disk. Resolves with `false` if the event was received before or is being written
   * for another attempt.
   */
  take(eventId: string, workflow: Workflow): Promise<boolean>
  /** Records that the workflow was started, or the response's status if it was rejected. It won't be tried again. */
  finish(eventId: string, refusedWith?: number): Promise<void>
}

/** Opens or creates a log. It must only be used by one process at a time. */
export async function openLog(path: string): Promise<Log> {
  const taken = new Map<string, Promise<void>>()
  const unfinished = new Map<string, Workflow>()
  const text = await readFile(path, { encoding: 'utf8', flag: 'a+' })
  for (const { eventId, workflow } of text.split('\n').flatMap(parseLine)) {
    taken.set(eventId, Promise.resolve())
    if (workflow) unfinished.set(eventId, workflow)
    else unfinished.delete(eventId)
  }
  // The line break comes first so that an incomplete line doesn't break the next one.
  const write = (line: Line) => appendFile(path, `\n${JSON.stringify(line)}`, { flush: true })
  return {
    unfinished,
    async take(eventId, workflow) {
      const before = taken.get(eventId)
      // Respond in the same way to both attempts. If the event can't be written, it has to be sent again.
      if (before) return before.then(() => false)
      const writing = write({ eventId, workflow })
      taken.set(eventId, writing)
      await writing.catch((error) => {
        taken.delete(eventId)
        throw error
      })
      return true
    },
    finish: (eventId, refusedWith) => write({ eventId, refusedWith }),
  }
}

interface Line {
  readonly eventId: string
  /** Not in the second line of an event, which has the outcome. */
  readonly workflow?: Workflow
  /** The status if the workflow was rejected. */
  readonly refusedWith?: number | undefined
}

/** Returns nothing if the line is incomplete because of a crash. Its event got no response, so it's sent again. */
function parseLine(line: string): [Line] | [] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}

/**
 * Keeps trying to start a workflow until the service has accepted the request, and then records it. After a crash in
 * between, the workflow is started again with the same key. If your service doesn't support idempotency keys, first ask
 * it for a workflow with the event's id. Rejected requests would be rejected again, so they are recorded as well for an
 * operator to look at.
 */
export async function start(
  log: Log,
  url: string,
  eventId: string,
  workflow: Workflow,
  wait: (ms: number) => Promise<unknown> = sleep,
): Promise<void> {
  for (;;) {
    try {
      const response = await slots.run(() =>
        fetch(url, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'Idempotency-Key': eventId },
          body: JSON.stringify(workflow),
          // Following a redirect would turn the POST into a GET.
          redirect: 'manual',
          signal: AbortSignal.timeout(TIMEOUT_MS),
        }),
      )
      if (response.ok) return await log.finish(eventId)
      const { status } = response
      if (status >= 500 || TRANSIENT.includes(status)) throw new Error(`the response was ${status}`)
      await log.finish(eventId, status)
      return console.error(
        `Gave up the ${workflow.kind} of ${workflow.title} (${eventId}): rejected with ${status}`,
      )
    } catch (error) {
      console.error(`Cannot start the ${workflow.kind} of ${workflow.title}: ${error}`)
      await wait(PAUSE_MS)
    }
  }
}

/** Creates a limiter that runs up to `count` tasks at once and queues the others. */
function createSlots(count: number): { run<Result>(work: () => Promise<Result>): Promise<Result> } {
  const waiting: (() => void)[] = []
  let free = count
  return {
    async run(work) {
      if (free > 0) free--
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        const next = waiting.shift()
        if (next) next()
        else free++
      }
    },
  }
}

const slots = createSlots(REQUESTS_MAX)

/**
 * Creates a subscriber that responds with 2xx if an event is in the log, 5xx if it couldn't be written, and 4xx if the
 * request isn't a verified event.
 */
export function createSubscriber(
  secret: string,
  log: Log,
  onTaken: (eventId: string, workflow: Workflow) => void,
): Server {
  return createServer(async (request, response) => {
    const status = await receive(request, secret, log, onTaken).catch((error) => {
      console.error(`Cannot take a webhook: ${error}`)
      return error instanceof WebhookError ? error.status : 500
    })
    response.writeHead(status).end()
  })
}

async function receive(
  request: IncomingMessage,
  secret: string,
  log: Log,
  onTaken: (eventId: string, workflow: Workflow) => void,
): Promise<number> {
  const { event } = await receiveWebhook(request, { secret })
  const workflow = workflowOf(event)
  if (workflow && (await log.take(event.id, workflow))) setImmediate(onTaken, event.id, workflow)
  return 204
}

/** Expected failures don't need a stack trace. */
function fail(line: string): never {
  console.error(line)
  process.exit(2)
}

async function main(): Promise<void> {
  const { SIGNING_SECRET, WORKFLOWS_URL, PORT = '4000' } = process.env
  const [path] = process.argv.slice(2)
  if (!SIGNING_SECRET || !WORKFLOWS_URL || !path) {
    fail('Usage: SIGNING_SECRET=… WORKFLOWS_URL=… npx tsx examples/start-delivery.ts FILE')
  }
  const log = await openLog(path)
  const onTaken = (eventId: string, workflow: Workflow): void =>
    void start(log, WORKFLOWS_URL, eventId, workflow)
  const server = createSubscriber(SIGNING_SECRET, log, onTaken)
  server.listen(Number(PORT), () => console.log('Listening on', server.address()))
  // We can exit right away, because workflows that haven't been started are in the log.
  process.once('SIGTERM', () => server.close(() => process.exit()))
  for (const [eventId, workflow] of log.unfinished) onTaken(eventId, workflow)
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
