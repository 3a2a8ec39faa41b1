import type { Ids } from './ids.ts'

/** What a new record is made with: ids of its own and the one moment at which all of it happens. */
export interface Making {
  readonly ids: Ids
  /** Milliseconds since 1970 in UTC. */
  readonly now: number
}

/** A moment as every timestamp of the API is written: ISO 8601 in UTC with milliseconds. */
export function toTimestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
