declare const json: unique symbol

/**
 * A value as JSON text. A store answers with text because a database can build a page as text several times faster
 * than the process can build objects from rows and serialize them again; the type remembers what the text holds.
 */
export type JsonText<T> = string & { readonly [json]?: T }

/** A value as JSON text, for stores that hold objects: `jsonText(clients)`. */
export function jsonText<T>(value: T): JsonText<T> {
  return JSON.stringify(value)
}
