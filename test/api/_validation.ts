import assert from 'node:assert/strict'
import { after } from 'node:test'
import {
  type Answer,
  assertError,
  assertFields,
  type Fields,
  type Organization,
  recordOf,
  request,
  startPlatform,
} from './_api.ts'

export const platform = await startPlatform()
// Many requests for an organization: the limits are another file's subject.
export const api = platform.apiWith({ rateLimit: false, onError: (error) => failures.push(error) })
export const failures: unknown[] = []
export const organization: Organization = await platform.organization()
after(() => platform.close())

export const { key } = organization

export function postClient(json: unknown): Promise<Answer> {
  return request(api, '/api/v1/clients', { key, json })
}

export function postClientText(body: string): Promise<Answer> {
  return request(api, '/api/v1/clients', { key, body })
}

export function postLeadText(body: string): Promise<Answer> {
  return request(api, '/api/v1/leads', { key, body })
}

export async function assertCreated(answer: Promise<Answer>, expected: Fields = {}): Promise<Fields> {
  const { business } = recordOf(await answer)
  assertFields(business)
  for (const [name, value] of Object.entries(expected)) assert.equal(business[name], value)
  return business
}

/** Asserts 422 with a text that names the field and the field's rule. */
export async function assertInvalid(answer: Promise<Answer>, field: string): Promise<string> {
  const text = assertError(await answer, 422, /^Validation failed: /)
  assert.match(text, new RegExp(`\\b${field}\\b.* must `))
  return text
}

export const EMOJI = '🏺'
/** Two code points that are shown as a single character: code points are counted. */
export const FLAG = '🇹🇳'
