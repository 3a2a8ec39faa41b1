// A resource builds a write's events and reply before calling the store. Only the store knows certain values, like the
// amount due after a payment or a new invoice's number. The resource leaves placeholders for these values in the JSON,
// and the store fills them in with the statement that writes the record (see business_api.render_template in sql/).

/**
 * A JSON placeholder for a value set by the store. No other string starts with NUL, because we reject NUL elsewhere.
 */
export type Placeholder = `\0${string}`

/** An object in which each field is either a value or a placeholder. */
export type Template<Shape> = { readonly [Field in keyof Shape]: Shape[Field] | Placeholder }

/**
 * Returns the placeholder for a field of the changed record, or a value that the method adds. Typos don't compile.
 *
 * @example
 * ```ts
 * placeholder<Invoice>('amountDue')
 * ```
 */
export function placeholder<Values>(name: keyof Values & string): Placeholder {
  return `\0${name}`
}

/** The placeholder for the whole record. */
export const WHOLE_RECORD: Placeholder = '\0'

const PLACEHOLDER_JSON = /"\\u0000([^"\\]*)"/g

/**
 * Replaces the placeholders in a JSON string with the store's values.
 *
 * @param record the record, whose fields are used as values
 * @param more additional values by name
 * @throws `Error` if a placeholder has no value, since placeholders must never reach subscribers
 *
 * @example
 * ```ts
 * const text = JSON.stringify({ amountDue: placeholder<Invoice>('amountDue') })
 * render(text, { amountDue: '250.000' })   // '{"amountDue":"250.000"}'
 * ```
 */
export function render(
  text: string,
  record: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, unknown>> = {},
): string {
  const values: Readonly<Record<string, unknown>> = { ...record, ...more, '': record }
  return text.replace(PLACEHOLDER_JSON, (_, name: string) => {
    if (!Object.hasOwn(values, name))
      throw new Error(`Cannot render '${name}' because the record has no such value`)
    return JSON.stringify(values[name])
  })
}
