import { readFunction } from './options.ts'

/** Returns the W3C `traceparent` of the current trace: `00-<trace id>-<span id>-<flags>`. */
export type CurrentTraceparent = () => string | null | undefined

// A later version may append fields; version ff is invalid (Trace Context, section 3.2.2).
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?$/

/**
 * Reads a W3C `traceparent`. The value may come from anyone, so a value in another form counts as none and is never an error.
 * For later versions, the fields of version 00 are kept.
 *
 * @returns 55 characters, version 00; undefined without a usable value
 */
export function readTraceparent(value: string | null | undefined): string | undefined {
  const [, version, fields, more] = (typeof value === 'string' && TRACEPARENT.exec(value)) || []
  return fields === undefined || (version === '00' && more !== undefined) ? undefined : `00-${fields}`
}

/**
 * Makes a reader of the host's current trace. A failure of the host's function counts as no trace, because tracing must not fail a
 * write.
 *
 * @throws `TypeError` for an option that is not a function
 */
export function createTraceparentReader(current: CurrentTraceparent): () => string | undefined {
  readFunction('traceparent', current)
  return () => {
    try {
      return readTraceparent(current())
    } catch {
      return undefined
    }
  }
}
