import { readFunction, readSync } from './options.ts'

/** Returns the current trace as a W3C `traceparent` in the format `00-<trace id>-<span id>-<flags>`. */
export type CurrentTraceparent = () => string | null | undefined

// Later versions may append fields. Version ff is invalid (Trace Context, section 3.2.2).
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?$/

/**
 * Parses a W3C `traceparent`. Anyone can send one, so invalid values are ignored and never cause an error. For later
 * versions, we only keep the version 00 fields.
 *
 * @returns 55 characters in version 00 format, or `undefined` if the value isn't usable
 */
export function readTraceparent(value: string | null | undefined): string | undefined {
  const [, version, fields, more] = (typeof value === 'string' && TRACEPARENT.exec(value)) || []
  return fields === undefined || (version === '00' && more !== undefined) ? undefined : `00-${fields}`
}

/**
 * Creates a function that reads the host's current trace. If the host's function throws, we assume there's no trace,
 * because tracing must not break a write.
 *
 * @throws `TypeError` if the option isn't a function
 */
export function createTraceparentReader(current: CurrentTraceparent): () => string | undefined {
  readFunction('traceparent', current)
  return () => {
    try {
      return readTraceparent(readSync('traceparent', current()))
    } catch {
      return undefined
    }
  }
}
