import { isStorable } from './fields.ts'

declare const json: unique symbol

/**
 * A value as JSON, either a string or UTF-8 bytes, to send in a response unchanged. A database can join stored
 * strings several times faster than we could build objects from rows and serialize them again. The type parameter is
 * the parsed type.
 */
export type JsonText<T> = (string | Uint8Array) & { readonly [json]?: T }

/**
 * Serializes a value to JSON. Meant for stores that keep objects.
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
 * Serializes a value to JSON with sorted object keys.
 *
 * @returns `null` if the value can't be represented in JSON, is nested too deeply, or contains something that databases
 *   can't store (NUL or a lone surrogate)
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
