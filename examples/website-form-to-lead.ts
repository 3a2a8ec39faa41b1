// Turns a submission of a website's form into a client and a lead. No matter what fails or how often a submission is
// processed, there will be one client and one lead. The idempotency key is derived from the submission's id, and the
// platform replays the stored response for a key for 7 days.
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

/** The address and key of the API. The key needs the scopes clients:write and leads:write. */
export interface Api {
  readonly url: string
  readonly key: string
  /** Waits for a number of milliseconds. Replaced in tests. */
  readonly wait?: (ms: number) => Promise<void>
}

/** The fields of the form. The id was created with the form, so it's the same however often the visitor clicks. */
export interface Submission {
  readonly id: string
  readonly name: string
  readonly category?: string
  readonly city?: string
  readonly email?: string
  readonly phone?: string
}

/** A submission that can't be processed. Trying again won't help. */
export class SubmissionError extends Error {
  override readonly name = 'SubmissionError'

  constructor(reason: string) {
    super(`Cannot push the submission because ${reason}`)
  }
}

const REQUIRED = ['id', 'name'] as const
const OPTIONAL = ['category', 'city', 'email', 'phone'] as const

/** Reads a submission from a file. Throws a `SubmissionError` naming the missing field. */
export function readSubmission(path: string): Submission {
  const submission = parse(readText(path)) as Submission | null | undefined
  if (typeof submission !== 'object' || submission === null)
    throw new SubmissionError(`${path} is no JSON object`)
  for (const field of [...REQUIRED, ...OPTIONAL]) {
    const value: unknown = submission[field] ?? ''
    if (typeof value !== 'string') throw new SubmissionError(`its field ${field} is no text`)
  }
  // Without an id, it wouldn't be safe to process a submission twice.
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
 * Creates the client and lead, or returns the existing ones. The API client retries for a minute. After that the job
 * fails with an `ApiError`, and you can run it again later if `isTransient` is true.
 */
export async function pushLead(api: Api, submission: Submission): Promise<{ client: Client; lead: Lead }> {
  const { clients, leads } = createApiClient(api)
  // Idempotency keys are separate for each route, so we can use the same one for both. It's hashed because a key is
  // limited to 200 visible ASCII characters.
  const idempotencyKey = createHash('sha256').update(`website-form:${submission.id}`).digest('hex')
  const client = await clients.create(toClientInput(submission), { idempotencyKey })
  // If we crash between the two requests, the first one returns the same business again in the next run.
  const lead = await leads.create({ businessId: client.business.id }, { idempotencyKey })
  return { client, lead }
}

/** Leaves out empty fields. The same submission must always have the same content. */
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

/** Expected failures don't need a stack trace. The exit code is 1 if it may help to run this again later. */
function fail(line: string, exitCode: 1 | 2 = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '' } = process.env
  const [path] = process.argv.slice(2)
  // Check the key here, because an error about an invalid header would include the key.
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
