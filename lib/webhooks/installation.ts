import type { AuditRecord } from '../access/audit.ts'

// A restored backup or a staging copy has the pending deliveries of production. The host names its installation, the name is in the
// database, and a delivery loop with another name waits.

/** The installation that a database belongs to. */
export interface Installation {
  /** Null if no loop with a name has started on the database. */
  readonly name: string | null
  /**
   * True if the server or the database is another one than when a loop first started: a restore, a copy, or the work of `pg_upgrade`. A hint
   * only, because a snapshot of the volume keeps both.
   */
  readonly isMoved: boolean
}

/** How to go on with a copy. */
export const COPY_ADVICE =
  'on a copy: stop the loops, business-api-kit deliveries cancel --pending, then business-api-kit adopt'

/** How to go on with a database without a name that has moved. */
export const MOVED_ADVICE: string = `${COPY_ADVICE}; after a restore or an upgrade of production: business-api-kit adopt`

/** Asks for a part of the cancellation of pending deliveries. */
export interface PendingCancellation {
  /** Maximum number of deliveries. */
  readonly limit: number
  /** The `next` of the previous part; null: from the first. */
  readonly after: string | null
  /** The same for every part. Each organization gets one entry, with `cancelled`, the number of its deliveries. */
  readonly entry: Omit<AuditRecord, 'subjectId' | 'details'>
}

/** A part of the cancellation. */
export interface CancelledPart {
  readonly cancelled: number
  /** Deliveries that were left because they are being sent. */
  readonly sending: number
  /** The `after` of the next part; null: this was the last. */
  readonly next: string | null
}

/** The slice of a store for the installation. A store whose data cannot be copied has none. */
export interface InstallationStore {
  /** Reads the installation. A database without a name gets the given name, unless it has moved. @param name of the loop; null: it has none */
  check(name: string | null): Promise<Installation>
  /** Makes the database that of an installation. @param name null: without a name */
  adopt(name: string | null): Promise<Installation>
  /** Cancels a part of the deliveries of all organizations that are not being sent. */
  cancelPending(request: PendingCancellation): Promise<CancelledPart>
}
