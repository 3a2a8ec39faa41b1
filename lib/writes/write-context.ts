import type { Ids } from '../base/ids.ts'

/** The ids and the time of a write. All its timestamps are the same. */
export interface WriteContext {
  readonly ids: Ids
  /** Milliseconds since 1970 (UTC). */
  readonly now: number
  /** The validated W3C `traceparent` of the current trace, or absent if there is none. */
  readonly traceparent?: string | undefined
}

/** Formats a time as in the API (ISO 8601, UTC, with milliseconds). */
export function toTimestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
