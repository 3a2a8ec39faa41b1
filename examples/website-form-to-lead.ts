// Turns the submission of a website's form into a client and a lead of that client. After any failure, and after any
// number of runs for a submission, there is one client and one lead: the idempotency key comes from the submission's
// id, and the platform replays the stored answer of a key (for 7 days).
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/website-form-to-lead.ts submission.json
//
// submission.json: { "id": "5f0c…", "name": "Atlas Ceramics", "email": "hello@atlas.example" }

import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, CreateClientInput, Lead } from 'business-api-kit'

const TIMEOUT_MS = 10_000
/** The shortest pauses between attempts. After the last pause and attempt the job fails, to be run again later. */
const PAUSES_MS: readonly number[] = [500, 1000, 2000, 4000, 8000]
/** If the API asks for a longer wait, the job fails, to be run again later. */
const WAIT_MAX_MS = 60_000

/** The API's address and key. The key needs the scopes clients:write and leads:write. */
export interface Api {
  readonly url: string
  readonly key: string
  /** Waits so many milliseconds; tests do not. */
  readonly wait?: (ms: number) => Promise<unknown>
}

/** The fields of the form. The id was made with the form, so every click of the visitor sends the same id. */
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
  /** True if another attempt may succeed later: for every failure but a refusal of the content or of the key. */
  readonly isTransient: boolean
  readonly retryAfterMs: number

  constructor(reason: string, options: { isTransient: boolean; retryAfterMs?: number; cause?: unknown }) {
    super(`Cannot push the submission because ${reason}`, { cause: options.cause })
    this.isTransient = options.isTransient
    this.retryAfterMs = options.retryAfterMs ?? 0
  }
}

const REQUIRED = ['id', 'name'] as const
const OPTIONAL = ['category', 'city', 'email', 'phone'] as const

/** Reads a submission from a file. Throws a `PushError` that names the missing field. */
export function readSubmission(path: string): Submission {
  const submission = parse(readText(path)) as Submission | null | undefined
  if (typeof submission !== 'object' || submission === null) throw refusal(`${path} is no JSON object`)
  for (const field of [...REQUIRED, ...OPTIONAL]) {
    const value: unknown = submission[field] ?? ''
    if (typeof value !== 'string') throw refusal(`its field ${field} is no text`)
  }
  // A submission without an id could not be run twice.
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

/** Makes the client and the lead, or gets the existing client and lead. */
export async function pushLead(api: Api, submission: Submission): Promise<{ client: Client; lead: Lead }> {
  // An idempotency key belongs to a route, so the same key serves both routes. Hashed, because a key is at most 200
  // visible ASCII characters.
  const idempotencyKey = createHash('sha256').update(`website-form:${submission.id}`).digest('hex')
  const client = await post<Client>(api, '/api/v1/clients', idempotencyKey, toClientInput(submission))
  // A crash between the two requests does no harm: in the next run the first request answers again with the same
  // business.
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
  // A 200 that cannot be read counts as a lost answer.
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
      // A followed redirect would turn the POST into a GET.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    return { response, text: await response.text() }
  } catch (cause) {
    // The request or the answer was lost, so the record may exist. The next attempt finds out.
    throw new PushError(`${path} has not answered (${describe(cause)})`, { isTransient: true, cause })
  }
}

/** The reason behind "fetch failed" is in the error's cause. */
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

/** An expected failure needs no stack: one line, and exit code 1 when another run later may help. */
function fail(line: string, exitCode: 1 | 2 = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '' } = process.env
  const [path] = process.argv.slice(2)
  // The key is checked here, because an error about an invalid header would show the key.
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
