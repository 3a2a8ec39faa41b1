// Turns what a visitor has sent with a website's form into a client and a lead of it. Whatever fails on the way, and
// however often it is run for a submission, there is one client and one lead: the idempotency key comes from the
// submission's id, and the platform replays what it has done under a key already (for 7 days).
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/website-form-to-lead.ts submission.json
//
// submission.json: { "id": "5f0c…", "name": "Atlas Ceramics", "email": "hello@atlas.example" }

import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, CreateClientInput, Lead } from 'business-api-kit'

const TIMEOUT_MS = 10_000
/** Between the attempts, at least. With all of them gone the job fails, and whoever runs it runs it again later. */
const PAUSES_MS: readonly number[] = [500, 1000, 2000, 4000, 8000]
/** Who asks for a longer wait is not waited for here: the job is run again later. */
const WAIT_MAX_MS = 60_000

/** Where to send it and with what. The key needs the scopes clients:write and leads:write. */
export interface Api {
  readonly url: string
  readonly key: string
  /** Waits so many milliseconds; tests do not. */
  readonly wait?: (ms: number) => Promise<unknown>
}

/** What the form gives us. Its id was made with the form, so it is the same however often the visitor clicks. */
export interface Submission {
  readonly id: string
  readonly name: string
  readonly category?: string
  readonly city?: string
  readonly email?: string
  readonly phone?: string
}

/** Why a submission could not be pushed. */
export class PushError extends Error {
  override readonly name = 'PushError'
  /** Whether the same may succeed later: true for everything but a refusal of the content or of the key. */
  readonly isTransient: boolean
  readonly retryAfterMs: number

  constructor(reason: string, options: { isTransient: boolean; retryAfterMs?: number; cause?: unknown }) {
    super(`Cannot push the submission as ${reason}`, { cause: options.cause })
    this.isTransient = options.isTransient
    this.retryAfterMs = options.retryAfterMs ?? 0
  }
}

const REQUIRED = ['id', 'name'] as const
const OPTIONAL = ['category', 'city', 'email', 'phone'] as const

/** Reads a submission from a file. Throws a `PushError` that names the field for one that cannot be pushed. */
export function readSubmission(path: string): Submission {
  const submission = parse(readText(path)) as Submission | null | undefined
  if (typeof submission !== 'object' || submission === null) throw refusal(`${path} is no JSON object`)
  for (const field of [...REQUIRED, ...OPTIONAL]) {
    const value: unknown = submission[field] ?? ''
    if (typeof value !== 'string') throw refusal(`its field ${field} is no text`)
  }
  // Without an id it could not be run twice.
  for (const field of REQUIRED) if (!submission[field]?.trim()) throw refusal(`its field ${field} is missing`)
  return submission
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw refusal(`its file cannot be read: ${(error as Error).message}`)
  }
}

function refusal(reason: string): PushError {
  return new PushError(reason, { isTransient: false })
}

/** Makes the client and its lead, or finds that they are there already. */
export async function pushLead(api: Api, submission: Submission): Promise<{ client: Client; lead: Lead }> {
  // A key belongs to its route, so the same one serves both. Hashed, as a key is visible ASCII, 200 characters at most.
  const idempotencyKey = createHash('sha256').update(`website-form:${submission.id}`).digest('hex')
  const client = await post<Client>(api, '/api/v1/clients', idempotencyKey, toClientInput(submission))
  // Between these two is no dangerous point: run again, the first answers as it did, with the same business.
  const lead = await post<Lead>(api, '/api/v1/leads', idempotencyKey, { businessId: client.business.id })
  return { client, lead }
}

/** A field that was left empty is left out. The same submission must give the same content each time. */
function toClientInput({ name, category, city, email, phone }: Submission): CreateClientInput {
  const optional = Object.entries({ category, city, email, phone })
  const filled = optional.flatMap(([field, value]) => (value?.trim() ? [[field, value.trim()] as const] : []))
  return { name: name.trim(), ...Object.fromEntries(filled) }
}

async function post<Item>(api: Api, path: string, idempotencyKey: string, input: object): Promise<Item> {
  const { wait = sleep } = api
  for (const pauseMs of PAUSES_MS) {
    try {
      return await attempt(api, path, idempotencyKey, input)
    } catch (error) {
      if (!(error instanceof PushError && error.isTransient && error.retryAfterMs <= WAIT_MAX_MS)) throw error
      await wait(Math.max(pauseMs, error.retryAfterMs))
    }
  }
  return attempt(api, path, idempotencyKey, input)
}

async function attempt<Item>(api: Api, path: string, idempotencyKey: string, input: object): Promise<Item> {
  const { response, text } = await send(api, path, idempotencyKey, input)
  const body = parse(text) as { data?: Item & object; error?: string; requestId?: string } | undefined
  if (response.ok && body?.data) return body.data
  const { status, headers } = response
  // A 200 that cannot be read is as good as a lost answer.
  const isTransient = status >= 500 || [200, 408, 409, 425, 429].includes(status)
  const retryAfterMs = Number(headers.get('retry-after')) * 1000 || 0
  const reason = `${path} answered ${status}: ${body?.error ?? 'not what the API says'} (${body?.requestId ?? 'no request id'})`
  throw new PushError(reason, { isTransient, retryAfterMs })
}

async function send(
  { url, key }: Api,
  path: string,
  idempotencyKey: string,
  input: object,
): Promise<{ response: Response; text: string }> {
  try {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${key}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': idempotencyKey,
      },
      body: JSON.stringify(input),
      // Followed, a redirect would make a GET of it.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    return { response, text: await response.text() }
  } catch (cause) {
    // Lost on its way there or on its way back: nobody knows whether it was done. The next attempt finds out.
    throw new PushError(`${path} has not answered (${describe(cause)})`, { isTransient: true, cause })
  }
}

/** The reason behind "fetch failed" is in its cause. */
function describe(error: unknown): string {
  const { cause } = error as { cause?: { code?: string } }
  return cause?.code ?? String(error)
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** What was to be expected needs no stack: one line, and 1 when running it again later may help. */
function fail(line: string, exitCode: 1 | 2 = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '' } = process.env
  const [path] = process.argv.slice(2)
  // The key is checked here, as an error about a header that cannot be sent would show it.
  if (!API_URL || !/^[!-~]+$/.test(API_KEY) || !path) {
    fail('Usage: API_URL=… API_KEY=… npx tsx examples/website-form-to-lead.ts FILE')
  }
  try {
    const { client, lead } = await pushLead({ url: API_URL, key: API_KEY }, readSubmission(path))
    console.log(`${lead.id} of ${client.id}, ${client.business.name}`)
  } catch (error) {
    if (error instanceof PushError) fail(error.message, error.isTransient ? 1 : 2)
    throw error
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
