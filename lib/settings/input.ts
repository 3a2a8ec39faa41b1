import * as v from 'valibot'
import { BusinessApiError, INVALID_INPUT } from '../errors.ts'
import * as field from '../fields.ts'

/** The host's name for an organization: any text that a database can keep. */
export const OrganizationIdSchema: v.GenericSchema<string> = field.text(1, 64)

/**
 * Checks an input of the host's code. The text of a refusal names the fields and what they must be and repeats no
 * value: one of them may be a key that was passed in the wrong place.
 *
 * @param action what is being done: "Cannot create an API key"
 * @returns a copy with the known fields only
 * @throws `BusinessApiError` with code `invalid_input`
 */
export function read<Schema extends v.GenericSchema>(
  schema: Schema,
  input: unknown,
  action: string,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, input)
  if (result.success) return result.output
  const reasons = new Set(result.issues.map(({ path, message }) => `${path?.[0].key} ${message}`))
  throw new BusinessApiError(INVALID_INPUT, `${action} as ${[...reasons].join('; ')}`)
}
