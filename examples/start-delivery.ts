// Starts a workflow once for each signed proposal and each completed project. An event is written to a log before the
// answer, so that a repeated event is recognized and no event is lost when the process ends. The workflow is started
// afterwards, under the event's id, again and again until the workflow service has taken or refused the request.
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
/** Requests to the workflow service at once: after an outage hundreds of workflows may wait to be started. */
const REQUESTS_MAX = 8
/** Refusals that may not last: too slow, still busy with the same key, too early, too often. */
const TRANSIENT: readonly number[] = [408, 409, 425, 429]

/** A workflow to start. */
export interface Workflow {
  readonly kind: 'kick-off' | 'handover'
  /** The proposal or project. */
  readonly subjectId: string
  readonly title: string
}

/** Gives the workflow that an event starts; null: no workflow. */
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
 * A log with a line for each received event, and another line when the workflow was started or refused. With a
 * database: a table.
 */
export interface Log {
  /** The workflows that were not yet started when the log was opened, by event id. */
  readonly unfinished: ReadonlyMap<string, Workflow>
  /**
   * Resolves when the event is on the disk. False: the event was received before, or is being written for another
   * attempt.
   */
  take(eventId: string, workflow: Workflow): Promise<boolean>
  /** Notes that the work was started or, with the status of the answer, refused: neither is begun again. */
  finish(eventId: string, refusedWith?: number): Promise<void>
}

/** Opens a log, or makes a new log. For one process at a time. */
export async function openLog(path: string): Promise<Log> {
  const taken = new Map<string, Promise<void>>()
  const unfinished = new Map<string, Workflow>()
  const text = await readFile(path, { encoding: 'utf8', flag: 'a+' })
  for (const { eventId, workflow } of text.split('\n').flatMap(parseLine)) {
    taken.set(eventId, Promise.resolve())
    if (workflow) unfinished.set(eventId, workflow)
    else unfinished.delete(eventId)
  }
  // The line break comes first, so that a line cut short does not spoil the next line.
  const write = (line: Line) => appendFile(path, `\n${JSON.stringify(line)}`, { flush: true })
  return {
    unfinished,
    async take(eventId, workflow) {
      const before = taken.get(eventId)
      // Both attempts are answered alike: an event that could not be written after all must come again.
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
  /** Left out in the second line of an event, which holds the outcome. */
  readonly workflow?: Workflow
  /** The status of a refusal. */
  readonly refusedWith?: number | undefined
}

/** Gives nothing for a line that a crash has cut short: its event had no answer and is sent again. */
function parseLine(line: string): [Line] | [] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}

/**
 * Starts a workflow, again and again until the service has taken the request, then notes the start. After a crash
 * between the two, the workflow is started again under the same key. A service without idempotency keys has to be asked
 * first for a workflow with the event's id. A refused request would be refused again, so the refusal is noted too, for
 * an operator to look at.
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
          // A followed redirect would turn the POST into a GET.
          redirect: 'manual',
          signal: AbortSignal.timeout(TIMEOUT_MS),
        }),
      )
      if (response.ok) return await log.finish(eventId)
      const { status } = response
      if (status >= 500 || TRANSIENT.includes(status)) throw new Error(`the answer was ${status}`)
      await log.finish(eventId, status)
      return console.error(
        `Gave up the ${workflow.kind} of ${workflow.title} (${eventId}): refused with ${status}`,
      )
    } catch (error) {
      console.error(`Cannot start the ${workflow.kind} of ${workflow.title}: ${error}`)
      await wait(PAUSE_MS)
    }
  }
}

/** Lets a number of pieces of work run at once; the rest wait for their turn. */
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
 * Answers 2xx when an event is in the log, 5xx when the event could not be written, 4xx to a request that is not a
 * verified event.
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

/** An expected failure needs no stack: one line. */
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
  // Workflows that were not started are in the log.
  process.once('SIGTERM', () => server.close(() => process.exit()))
  for (const [eventId, workflow] of log.unfinished) onTaken(eventId, workflow)
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
