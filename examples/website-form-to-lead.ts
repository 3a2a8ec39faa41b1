// Turns the submission of a website's form into a client and a lead of that client. After any failure, and after any
// number of runs for a submission, there is one client and one lead: the idempotency key comes from the submission's
// id, and the platform replays the stored answer of a key (for 7 days).
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/website-form-to-lead.ts submission.json
//
// submission.json: { "id": "5f0c…", "name": "Atlas Ceramics", "email": "hello@atlas.example" }

import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import {
  ApiError,
  type Client,
  type CreateClientInput,
  createApiClient,
  type Lead,
} from 'business-api-kit/client'

/** The API's address and key. The key needs the scopes clients:write and leads:write. */
export interface Api {
  readonly url: string
  readonly key: string
  /** Waits so many milliseconds; tests do not. */
  readonly wait?: (ms: number) => Promise<void>
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

/** Why a submission cannot be pushed, however often it is tried. */
export class SubmissionError extends Error {
  override readonly name = 'SubmissionError'

  constructor(reason: string) {
    super(`Cannot push the submission because ${reason}`)
  }
}

const REQUIRED = ['id', 'name'] as const
const OPTIONAL = ['category', 'city', 'email', 'phone'] as const

/** Reads a submission from a file. Throws a `SubmissionError` that names the missing field. */
export function readSubmission(path: string): Submission {
  const submission = parse(readText(path)) as Submission | null | undefined
  if (typeof submission !== 'object' || submission === null)
    throw new SubmissionError(`${path} is no JSON object`)
  for (const field of [...REQUIRED, ...OPTIONAL]) {
    const value: unknown = submission[field] ?? ''
    if (typeof value !== 'string') throw new SubmissionError(`its field ${field} is no text`)
  }
  // A submission without an id could not be run twice.
  for (const field of REQUIRED)
    if (!submission[field]?.trim()) throw new SubmissionError(`its field ${field} is missing`)
  return submission
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new SubmissionError(`its file cannot be read: ${(error as Error).message}`)
  }
}

/**
 * Makes the client and the lead, or gets the existing client and lead. The client of the API tries again for a minute; after that
 * the job fails with an `ApiError`, to be run again later if `isTransient`.
 */
export async function pushLead(api: Api, submission: Submission): Promise<{ client: Client; lead: Lead }> {
  const { clients, leads } = createApiClient(api)
  // An idempotency key belongs to a route, so the same key serves both routes. Hashed, because a key is at most 200
  // visible ASCII characters.
  const idempotencyKey = createHash('sha256').update(`website-form:${submission.id}`).digest('hex')
  const client = await clients.create(toClientInput(submission), { idempotencyKey })
  // A crash between the two requests does no harm: in the next run the first request answers again with the same
  // business.
  const lead = await leads.create({ businessId: client.business.id }, { idempotencyKey })
  return { client, lead }
}

/** A field that was left empty is left out. The same submission must give the same content each time. */
function toClientInput({ name, category, city, email, phone }: Submission): CreateClientInput {
  const optional = Object.entries({ category, city, email, phone })
  const filled = optional.flatMap(([field, value]) => (value?.trim() ? [[field, value.trim()] as const] : []))
  return { name: name.trim(), ...Object.fromEntries(filled) }
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
    if (error instanceof ApiError) fail(error.message, error.isTransient ? 1 : 2)
    if (error instanceof SubmissionError) fail(error.message)
    throw error
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
