import type { Sql } from 'postgres'
import type { BusinessApiStore, RecordStore } from '../business-store.ts'
import { createApiKeyStore } from './api-keys.ts'
import { createAuditStore } from './audit.ts'
import { createBusinessRecordStore } from './businesses.ts'
import { createClientStore } from './clients.ts'
import { createDatabase, type DatabaseOptions, type RecordDatabase } from './connection/database.ts'
import { createTransactionDatabase, type PostgresTransaction } from './connection/transaction.ts'
import { createDeliveryStore } from './deliveries.ts'
import { createEndpointStore } from './endpoints.ts'
import { createEventStore } from './events.ts'
import { createInvoiceStore } from './invoices.ts'
import { createLeadStore } from './leads.ts'
import { createNoticeStore } from './notices.ts'
import { createOverviewStore } from './overview.ts'
import { createProjectStore } from './projects.ts'
import { createProposalStore } from './proposals.ts'

/** The reference store. */
export interface PostgresStore extends BusinessApiStore {
  /**
   * The slices of records and events, in a transaction of the host's (postgres.js): what they write is there when the
   * host commits, and never was when it rolls back. Nothing is sent again here: a failed statement has ended the
   * transaction.
   */
  using(transaction: PostgresTransaction): RecordStore
  /** Ends the store's connections; a host's own pool stays open. */
  close(): Promise<void>
}

/**
 * Keeps everything in the schema `business_api` of a PostgreSQL database, which `migrate` has prepared. Opens nothing
 * until it is first used.
 *
 * @param source a connection string, or the host's own postgres.js pool, whatever its options (`prepare: false`
 *   included): the store then opens connections with the same options, at most as many, and closes them when idle
 * @throws `TypeError` or `RangeError` for what cannot be used
 */
export function createPostgresStore(source: Sql | string, options: DatabaseOptions = {}): PostgresStore {
  const database = createDatabase(source, options)
  return {
    ...createRecordStores(database),
    apiKeys: createApiKeyStore(database),
    endpoints: createEndpointStore(database),
    deliveries: createDeliveryStore(database),
    notices: createNoticeStore(database),
    audit: createAuditStore(database),
    overview: createOverviewStore(database),
    using: (transaction) => createRecordStores(createTransactionDatabase(transaction)),
    close: () => database.close(),
  }
}

function createRecordStores(database: RecordDatabase): RecordStore {
  return {
    businesses: createBusinessRecordStore(database),
    clients: createClientStore(database),
    leads: createLeadStore(database),
    invoices: createInvoiceStore(database),
    proposals: createProposalStore(database),
    projects: createProjectStore(database),
    events: createEventStore(database),
  }
}
