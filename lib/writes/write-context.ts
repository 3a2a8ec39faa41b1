import type { Ids } from '../base/ids.ts'

/** The ids and time to use for a write, so all its timestamps are the same. */
export interface WriteContext {
  readonly ids: Ids
  /** Milliseconds since 1970 (UTC). */
  readonly now: number
  /** The current trace as a validated W3C `traceparent`, or absent if there's no trace. */
  readonly traceparent?: string | undefined
}

/** Formats a time like the API does (ISO 8601, UTC, with milliseconds). */
export function toTimestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
