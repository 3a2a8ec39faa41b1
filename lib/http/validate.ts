import * as v from 'valibot'
import { type Refusal, refusals } from './refusal.ts'

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
  if (issue.type === 'object' && issue.path) return `${path} is required and ${requirementOf(schema, path)}`
  const isOptional = entryOf(schema, path)?.type === 'exact_optional'
  return issue.input === null && isOptional
    ? `${path} ${issue.message}, not null: leave ${path} out instead`
    : `${path} ${issue.message}`
}

/** Returns the rule for a missing field. The schema of the field states the rule; the schema of the object does not. */
function requirementOf(schema: v.GenericSchema, field: string): string {
  const message = entryOf(schema, field)?.message
  return typeof message === 'string' ? message : 'must be given'
}

function entryOf(schema: v.GenericSchema, field: string): { type: string; message?: unknown } | undefined {
  return 'entries' in schema ? (schema.entries as Record<string, v.GenericSchema>)[field] : undefined
}

/** Specification, section 8. */
export const LIMIT_DEFAULT = 50
/** Specification, section 8. */
export const LIMIT_MAX = 200

/**
 * Reads the `limit` of a list (specification, section 4): 1 to 200 without leading zeros, 50 when absent.
 *
 * @param query the text after the `?`; may be empty
 * @returns the refusal 422 for any other value, and for a limit given more than once. Returned and not thrown, because the
 *   API key is judged before the query
 */
export function readLimit(query: string): number | Refusal {
  if (!query.includes('limit') && !query.includes('%')) return LIMIT_DEFAULT
  const values = new URLSearchParams(query).getAll('limit')
  if (values.length === 0) return LIMIT_DEFAULT
  const [value = ''] = values
  const limit = /^[1-9]\d{0,2}$/.test(value) ? Number(value) : 0
  if (values.length > 1 || limit < 1 || limit > LIMIT_MAX) {
    return refusals.invalidLimit(LIMIT_MAX)
  }
  return limit
}
