declare const json: unique symbol

/**
 * A value as JSON text, or the bytes of that text in UTF-8, which pass through to the response. A database joins a page of
 * stored texts several times faster than the process builds objects from rows and serializes the objects again. The type
 * remembers the content of the text.
 */
export type JsonText<T> = (string | Uint8Array) & { readonly [json]?: T }

/** Serializes a value, for stores that hold objects: `jsonText(clients)`. */
export function jsonText<T>(value: T): JsonText<T> & string {
  return JSON.stringify(value)
}
