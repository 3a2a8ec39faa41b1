// Events and replies are made in one place, by the resource, before the store is asked; but some of what they say only
// the store knows: what is due after a payment, the number that a new invoice gets. So the resource leaves blanks in
// their JSON text and the store fills them in, inside the statement that writes the record: see business_api.fill in sql/.

/** A place in a JSON text that the store fills in. No text that can be stored begins so: NUL is refused everywhere. */
export type Blank = `\0${string}`

/** What a resource prepares of a shape: each field is known by now, or left blank. */
export type WithBlanks<Shape> = { readonly [Field in keyof Shape]: Shape[Field] | Blank }

/**
 * A blank, to be filled with a field of the record as it is after the change, or with what the verb adds to them.
 *
 * @param name of the field; empty: the whole record as the API shows it
 */
export function blank(name: string): Blank {
  return `\0${name}`
}

const BLANK_JSON = /"\\u0000([^"\\]*)"/g

/**
 * Fills in the blanks of a JSON text; one whose name is unknown stays.
 *
 * @param record the whole record, and the values of its fields
 * @param more values by name beside the record's
 */
export function fill(
  text: string,
  record: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, unknown>> = {},
): string {
  const values: Readonly<Record<string, unknown>> = { ...record, ...more, '': record }
  return text.replace(BLANK_JSON, (place, name: string) =>
    Object.hasOwn(values, name) ? JSON.stringify(values[name]) : place,
  )
}
