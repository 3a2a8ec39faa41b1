import * as v from 'valibot'
import { refusals } from './refusal.ts'

/**
 * Validates an input and returns a copy with the known fields only, so that an unknown field of a caller travels no
 * further.
 *
 * @throws `Refusal` 422 naming each wrong field and the field's rule
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

/** Returns the rule for a missing field. The schema of the field states the rule; the schema of the object does not. */
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
 * Reads the `limit` of a list (specification, section 4): 1 to 200 without leading zeros, 50 when absent.
 *
 * @param query the text after the `?`; may be empty
 * @throws `Refusal` 422 for any other value, and for a limit given more than once
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
