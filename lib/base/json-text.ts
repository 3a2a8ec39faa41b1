declare const json: unique symbol

/**
 * A value as JSON text. A store answers with text because a database builds a page as text several times faster than
 * the process builds objects from rows and serializes the objects again. The type remembers the content of the text.
 */
export type JsonText<T> = string & { readonly [json]?: T }

/** Serializes a value, for stores that hold objects: `jsonText(clients)`. */
export function jsonText<T>(value: T): JsonText<T> {
  return JSON.stringify(value)
}
