import { isStorable } from './fields.ts'

declare const json: unique symbol

/**
 * A value as a JSON string, or as its bytes in UTF-8, which pass through to the response. A database joins a page of stored strings
 * several times faster than the process builds objects from rows and serializes them again. The type parameter is the parsed content.
 */
export type JsonText<T> = (string | Uint8Array) & { readonly [json]?: T }

/**
 * Serializes a value, for stores that hold objects.
 *
 * @example
 * ```ts
 * const text = jsonText([{ id: 'cli_1' }])
 * ```
 */
export function jsonText<T>(value: T): JsonText<T> & string {
  return JSON.stringify(value)
}

/**
 * Writes JSON with the names of objects in order.
 *
 * @returns null for what JSON cannot say or is nested too deep, and for NUL or a lone surrogate, which no database can keep
 */
export function canonicalJson(value: unknown): string | null {
  try {
    return JSON.stringify(value, sortNames) ?? null
  } catch {
    return null
  }
}

function sortNames(name: string, value: unknown): unknown {
  if (!isStorable(name) || (typeof value === 'string' && !isStorable(value))) throw new Error()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}
