import type { Ids } from '../base/ids.ts'

/** The ids and the moment of a write. All timestamps of a write show the same moment. */
export interface WriteContext {
  readonly ids: Ids
  /** Milliseconds since 1970 in UTC. */
  readonly now: number
  /** The W3C `traceparent` of the trace around the write, checked; absent: none. */
  readonly traceparent?: string | undefined
}

/** Formats a moment like every timestamp of the API: ISO 8601 in UTC with milliseconds. */
export function toTimestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
