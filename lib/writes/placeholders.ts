// The resource builds events and replies in one place, before the store is asked. Some of their values only the store
// knows: the amount due after a payment, the number of a new invoice. For these the resource leaves placeholders in the
// JSON text, and the store renders the text inside the statement that writes the record: business_api.render_template in sql/.

/** A place in a JSON text for a value of the store. No stored text can begin so, because NUL is refused everywhere. */
export type Placeholder = `\0${string}`

/** A shape of which each field is known, or left to the store. */
export type Template<Shape> = { readonly [Field in keyof Shape]: Shape[Field] | Placeholder }

/**
 * Names a value that the store renders: a field of the record as it is after the change, or a value that the verb adds.
 * The type argument lists the names, so that a misspelt one does not compile: `placeholder<Invoice>('amountDue')`.
 */
export function placeholder<Values>(name: keyof Values & string): Placeholder {
  return `\0${name}`
}

/** Stands for the whole record as the API shows it. */
export const WHOLE_RECORD: Placeholder = '\0'

const PLACEHOLDER_JSON = /"\\u0000([^"\\]*)"/g

/**
 * Puts the values of the store into a JSON text.
 *
 * @param record the whole record, and the values of its fields
 * @param more values by name beside the record's
 * @throws `Error` naming a placeholder that has no value: sent, it would reach subscribers
 */
export function render(
  text: string,
  record: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, unknown>> = {},
): string {
  const values: Readonly<Record<string, unknown>> = { ...record, ...more, '': record }
  return text.replace(PLACEHOLDER_JSON, (_, name: string) => {
    if (!Object.hasOwn(values, name))
      throw new Error(`Cannot render '${name}' as the record has no such value`)
    return JSON.stringify(values[name])
  })
}
