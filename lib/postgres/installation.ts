import { setTimeout as sleep } from 'node:timers/promises'
import type { AuditRecord } from '../access/audit.ts'
import type { Installation, InstallationStore } from '../webhooks/installation.ts'
import type { Database } from './connection/database.ts'
import { callFor } from './statements/statement.ts'

/** The result of cancelling one batch of pending deliveries. */
export interface CancelledPart {
  readonly cancelled: number
  /** Number of deliveries that couldn't be cancelled because they were sending. */
  readonly sending: number
}

/** The PostgreSQL store for the installation, including operations for copied databases. */
export interface PostgresInstallation extends InstallationStore {
  /** Makes the database part of the installation `name`, or an unnamed one if `null`. */
  adopt(name: string | null): Promise<Installation>
  /**
   * Cancels pending deliveries across organizations in batches, except for sending ones. Pauses after each batch
   * for as long as the batch took.
   *
   * @param entry the audit entry. Each organization gets one, with the number of deliveries as `cancelled`
   */
  cancelPending(entry: Omit<AuditRecord, 'subjectId' | 'details'>): AsyncIterable<CancelledPart>
}

/** Creates the PostgreSQL store for the installation. See sql/46-installation.sql. */
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
