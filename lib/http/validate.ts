import * as v from 'valibot'
import { checkValue, type StandardSchema } from '../base/standard-schema.ts'
import { IDEMPOTENCY_KEY_MAX, isIdempotencyKey } from '../writes/idempotency.ts'
import { refusals } from './refusal.ts'

/**
 * Validates input and returns a copy without unknown fields.
 *
 * @throws `Refusal` with status 422, listing each invalid field and the rule
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

/** Returns the rule for a missing field, which is in the field's schema rather than the object's. */
function requirementOf(schema: v.GenericSchema, field: string): string {
  const message = entryOf(schema, field)?.message
  return typeof message === 'string' ? message : 'must be given'
}

function entryOf(schema: v.GenericSchema, field: string): { type: string; message?: unknown } | undefined {
  return 'entries' in schema ? (schema.entries as Record<string, v.GenericSchema>)[field] : undefined
}

/**
 * Validates a part of a request against the host's schema.
 *
 * @param part the prefix for field names in messages, for example `query `
 * @throws `Refusal` with status 422, listing each invalid field and the rule
 */
export function validateOwn(schema: StandardSchema, value: unknown, part: string): unknown {
  const checked = checkValue(schema, value)
  if ('value' in checked) return checked.value
  const reasons = checked.faults.map(({ path, rule }) => `${part}${path.join('.') || 'value'} ${rule}`)
  throw refusals.invalid(`Validation failed: ${reasons.join('; ')}`)
}

/**
 * Reads a request's idempotency key. Returns `null` if the header is absent.
 *
 * @throws `Refusal` with status 422 if the key is empty, longer than 200 characters, not visible ASCII, or sent twice
 */
export function readIdempotencyKey(header: string | undefined): string | null {
  if (header === undefined) return null
  if (!isIdempotencyKey(header)) {
    throw refusals.invalid(
      `Validation failed: Idempotency-Key must be given once and have 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`,
    )
  }
  return header
}
