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
// Rate limits are tested elsewhere, and there are many requests here.
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

/** Asserts that the response is a 422 whose message contains the field and its rule. */
export async function assertInvalid(answer: Promise<Answer>, field: string): Promise<string> {
  const text = assertError(await answer, 422, /^Validation failed: /)
  assert.match(text, new RegExp(`\\b${field}\\b.* must `))
  return text
}

export const EMOJI = '🏺'
/** A single visible character that consists of two code points, which is what we count. */
export const FLAG = '🇹🇳'
