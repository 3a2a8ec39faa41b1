declare const json: unique symbol

/**
 * A value as JSON text, or the bytes of that text in UTF-8. A store answers with text because a database can build a page as text several times faster
 * than the process can build objects from rows and serialize them again; the type remembers what the text holds.
 */
export type JsonText<T> = (string | Uint8Array) & { readonly [json]?: T }

/** A value as JSON text, for stores that hold objects: `jsonText(clients)`. */
export function jsonText<T>(value: T): JsonText<T> & string {
  return JSON.stringify(value)
}
