// A resource builds the events and the reply of a write before it calls the store. Some values are only known to the
// store, for example the amount due after a payment or the number of a new invoice. The resource puts placeholders for
// them into the JSON, and the store renders it in the statement that writes the record (see
// business_api.render_template in sql/).

/** A placeholder in JSON for a value set by the store. No other string starts with NUL because NUL is rejected. */
export type Placeholder = `\0${string}`

/** An object in which each field is a value or a placeholder. */
export type Template<Shape> = { readonly [Field in keyof Shape]: Shape[Field] | Placeholder }

/**
 * Returns the placeholder for a field of the changed record or a value added by the method. The type parameter
 * restricts the name, so a typo doesn't compile.
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
 * @throws `Error` if a placeholder has no value, because it must not reach subscribers
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
