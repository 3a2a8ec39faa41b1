import { setTimeout as sleep } from 'node:timers/promises'
import type { AuditRecord } from '../access/audit.ts'
import type { Installation, InstallationStore } from '../webhooks/installation.ts'
import type { Database } from './connection/database.ts'
import { callFor } from './statements/statement.ts'

/** One part of cancelling pending deliveries. */
export interface CancelledPart {
  readonly cancelled: number
  /** Deliveries that were left because they are being sent. */
  readonly sending: number
}

/** The slice of the installation in PostgreSQL, with what an operator does with a copy. */
export interface PostgresInstallation extends InstallationStore {
  /** Makes the database that of an installation. @param name null: without a name */
  adopt(name: string | null): Promise<Installation>
  /**
   * Cancels the deliveries of all organizations that are not being sent, a part at a time. Rests as long as each part has taken, so
   * others can work meanwhile.
   *
   * @param entry the same for every part. Each organization gets one entry, with `cancelled`, the number of its deliveries
   */
  cancelPending(entry: Omit<AuditRecord, 'subjectId' | 'details'>): AsyncIterable<CancelledPart>
}

/** Creates the slice of the installation in PostgreSQL. The work is done by functions of the schema: see sql/46-installation.sql. */
export function createInstallationStore(database: Database): PostgresInstallation {
  function check(name: string | null, adopts: 'true' | 'false'): Promise<Installation> {
    return callFor(database, null, 'check_installation(text, boolean)', name, adopts)
  }

  return {
    check: (name) => check(name, 'false'),
    adopt: (name) => check(name, 'true'),
    async *cancelPending(entry) {
      let block: number | null = 0
      while (block !== null) {
        const begunAt = performance.now()
        const call = 'cancel_pending_part(bigint, jsonb)'
        const { next, ...part }: CancelledPart & { readonly next: number | null } = await callFor(
          database,
          null,
          call,
          block,
          JSON.stringify(entry),
        )
        block = next
        yield part
        if (block !== null) await sleep(performance.now() - begunAt)
      }
    },
  }
}
