import * as v from 'valibot'
import { refusals } from './refusal.ts'

/**
 * The validated input: known fields only, copied, so that nothing a caller adds can travel on.
 *
 * @throws `Refusal` 422 naming each field and what it must be
 */
export function validate(schema: v.GenericSchema, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refusals.invalid('Validation failed: the body must be a JSON object')
  }
  const result = v.safeParse(schema, value, { abortPipeEarly: true })
  if (result.success) return result.output
  throw refusals.invalid(
    `Validation failed: ${result.issues.map((issue) => describe(schema, issue)).join('; ')}`,
  )
}

function describe(schema: v.GenericSchema, issue: v.GenericIssue): string {
  const path = v.getDotPath(issue) ?? 'the body'
  return issue.type === 'object' && issue.path
    ? `${path} is required and ${requirementOf(schema, path)}`
    : `${path} ${issue.message}`
}

/** What a missing field must be is said by the schema of the field, not by that of the object that misses it. */
function requirementOf(schema: v.GenericSchema, field: string): string {
  const entries = 'entries' in schema ? (schema.entries as Record<string, { message?: unknown }>) : {}
  const message = entries[field]?.message
  return typeof message === 'string' ? message : 'must be given'
}

/** Specification, section 8. */
export const LIMIT_DEFAULT = 50
/** Specification, section 8. */
export const LIMIT_MAX = 200

/**
 * The `limit` of a list (specification, section 4): 1 to 200 without leading zeros, 50 when absent.
 *
 * @param query what follows the `?`, or nothing
 * @throws `Refusal` 422 for anything else, also when it is given more than once
 */
export function readLimit(query: string): number {
  if (!query.includes('limit') && !query.includes('%')) return LIMIT_DEFAULT
  const values = new URLSearchParams(query).getAll('limit')
  if (values.length === 0) return LIMIT_DEFAULT
  const [value = ''] = values
  const limit = /^[1-9]\d{0,2}$/.test(value) ? Number(value) : 0
  if (values.length > 1 || limit < 1 || limit > LIMIT_MAX) {
    throw refusals.invalid(`Validation failed: limit must be one whole number from 1 to ${LIMIT_MAX}`)
  }
  return limit
}
