// A resource builds a write's events and reply before it calls the store. Only the store knows some values, such as the amount due
// after a payment or the number of a new invoice. The resource leaves placeholders for such values in the JSON text, and the store
// renders the text inside the statement that writes the record: business_api.render_template in sql/.

/** A placeholder in a JSON text for a value of the store. No stored text begins with NUL, because NUL is rejected everywhere. */
export type Placeholder = `\0${string}`

/** An object whose fields are known values or placeholders. */
export type Template<Shape> = { readonly [Field in keyof Shape]: Shape[Field] | Placeholder }

/**
 * Returns the placeholder of a value: a field of the record after the change, or a value that the verb adds. The type argument lists the
 * allowed names, so a misspelt name doesn't compile.
 *
 * @example
 * ```ts
 * placeholder<Invoice>('amountDue')
 * ```
 */
export function placeholder<Values>(name: keyof Values & string): Placeholder {
  return `\0${name}`
}

/** The placeholder of the record's whole representation. */
export const WHOLE_RECORD: Placeholder = '\0'

const PLACEHOLDER_JSON = /"\\u0000([^"\\]*)"/g

/**
 * Replaces the placeholders in a JSON text by the store's values.
 *
 * @param record the record's representation, with the values by field name
 * @param more further values by name
 * @throws `Error` naming a placeholder without a value, which would otherwise reach subscribers
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
