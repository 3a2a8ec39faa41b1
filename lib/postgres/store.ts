import type { Sql } from 'postgres'
import { type Names, rejectUnknown } from '../base/options.ts'
import type { BusinessApiStore, RecordStore, TransactionStore } from '../business-store.ts'
import { defineService, type Service } from '../service.ts'
import { type Admissions, createAdmissions } from './admission/admission.ts'
import { askEachAlone, createBatches } from './admission/batches.ts'
import { createApiKeyStore } from './api-keys.ts'
import { createAuditStore } from './audit.ts'
import { createBackfillStore } from './backfills.ts'
import { createBusinessRecordStore } from './businesses.ts'
import { createClientStore } from './clients.ts'
import {
  type CloseOptions,
  createDatabase,
  DATABASE_NAMES,
  type Database,
  type DatabaseOptions,
  type RecordDatabase,
} from './connection/database.ts'
import { createTransactionDatabase, type PostgresTransaction } from './connection/transaction.ts'
import { createDeliveryStore } from './deliveries.ts'
import type { SqlTransaction } from './drivers/sql-transaction.ts'
import { createEndpointStore } from './endpoints.ts'
import { createEventLogStore } from './event-log.ts'
import { createEventStore } from './events.ts'
import { createImportStore } from './imports.ts'
import { createInstallationStore, type PostgresInstallation } from './installation.ts'
import { createInvoiceStore } from './invoices.ts'
import { createLeadStore } from './leads.ts'
import { createNoticeStore } from './notices.ts'
import { createOrganizationStore } from './organizations.ts'
import { createPlainStores } from './plain-records.ts'
import { createProposalStore } from './proposals.ts'
import { createReplyStore } from './replies.ts'
import { createRequestLogStore } from './request-log.ts'
import { readShardKeys, type ShardKeys } from './shards/shard-keys.ts'
import { type Entries, readShardPlace, type ShardPlace, type StoredPlace } from './shards/shard-place.ts'

/** Options of `createPostgresStore`. */
export interface PostgresStoreOptions<Own extends Service = Service> extends DatabaseOptions {
  /** The service, the same in every process: `defineService(…)`. Default the default names. */
  service?: Own | undefined
}

const NAMES: Names<PostgresStoreOptions> = { ...DATABASE_NAMES, service: true }

/** The reference store. @typeParam Own the service of the store: `typeof service` */
export interface PostgresStore<Own extends Service = Service> extends BusinessApiStore, AsyncDisposable {
  readonly service: Own
  readonly installation: PostgresInstallation
  /**
   * Returns the slices of records, events and replies in a transaction of the host: their writes are committed and rolled back with the
   * transaction. A failed statement ends the transaction, so no statement is sent again.
   *
   * @param transaction the argument of `sql.begin`'s callback in postgres.js, or the transaction of another driver by `pgTransaction`,
   *   `drizzleTransaction`, `kyselyTransaction` or `prismaTransaction`
   * @throws `TypeError` for a pool, which would commit each statement by itself
   */
  using(transaction: PostgresTransaction | SqlTransaction): TransactionStore
  /**
   * Closes the store after the end of requests and statements under way. Meanwhile new requests get 503, and statements are
   * still sent, because a statement may belong to a request under way. Afterwards every statement is rejected. A host's own
   * pool stays open. Close the HTTP server, the delivery loop and the sender first.
   *
   * @param options.timeoutMs milliseconds to wait; the rest is cut off with `store_unavailable`. Default 4000. The close ends
   *   half a second after that time at the latest, also on a silent network
   */
  close(options?: CloseOptions): Promise<void>
  /**
   * Reads the place of the database among shards: for `createShardedStore`.
   *
   * @param first the place that a database without one, or with an earlier version, gets; null: none
   * @param options.transaction the transaction of the host whose database is asked. Default: the store's own connections
   * @param options.told entries of the map that the database gets
   * @returns null for a database without a place
   */
  shardPlace(
    first?: ShardPlace | null,
    options?: {
      readonly transaction?: PostgresTransaction | SqlTransaction
      readonly told?: Entries
    },
  ): Promise<StoredPlace | null>
  /**
   * Finds the owners of API keys, with the places of organizations that the answer is about: for `createShardedStore`.
   *
   * @param slots the slots that the keys carry
   */
  shardKeys(digests: readonly string[], slots?: readonly number[]): Promise<ShardKeys>
}

/**
 * Creates a store in the schema `business_api` of a PostgreSQL database, which `migrate` has prepared. The first statement opens the first
 * connection. An idle connection doesn't keep the process alive.
 *
 * @param source a connection string, or your postgres.js pool. In both cases the store opens its own connections, to the same server with the
 *   same user, TLS and session parameters
 * @throws `TypeError` or `RangeError` for an invalid argument; the message repeats no part of the connection string
 * @example
 * ```ts
 * const store = createPostgresStore(process.env.DATABASE_URL ?? '', { maxConnections: 20 })
 * ```
 */
export function createPostgresStore<Own extends Service = Service>(
  source: Sql | string,
  given: PostgresStoreOptions<Own> = {},
): PostgresStore<Own> {
  rejectUnknown(given, NAMES)
  const { service, ...options } = given
  return createStoreOn(createDatabase(source, options), defineService(service)) as PostgresStore<Own>
}

/**
 * Creates a store whose statements go through a given database. Tests observe the statements.
 *
 * @internal
 */
export function createStoreOn(database: Database, service: Service = defineService()): PostgresStore {
  const batches = createBatches(database)
  const admissions = createAdmissions(batches)

  const inTransaction = (given: PostgresTransaction | SqlTransaction): RecordDatabase =>
    createTransactionDatabase(given, database.explain)

  return {
    ...createRecordStores(database, admissions),
    service,
    apiKeys: createApiKeyStore(database, admissions),
    endpoints: createEndpointStore(database),
    deliveries: createDeliveryStore(database),
    notices: createNoticeStore(database),
    audit: createAuditStore(database),
    requests: createRequestLogStore(database),
    organizations: createOrganizationStore(database),
    backfills: createBackfillStore(database),
    eventLog: createEventLogStore(database),
    installation: createInstallationStore(database),
    using(transaction) {
      const own = inTransaction(transaction)
      return {
        ...createRecordStores(own, createAdmissions(askEachAlone(own))),
        replies: createReplyStore(own),
      }
    },
    beginRequest: database.beginRequest,
    connectionUse: batches.connectionUse,
    shardPlace: (first, { transaction, told } = {}) =>
      readShardPlace(transaction ? inTransaction(transaction) : database, first, told),
    shardKeys: (digests, slots) => readShardKeys(database, digests, slots),
    close: database.close,
    [Symbol.asyncDispose]: () => database.close(),
  }
}

function createRecordStores(database: RecordDatabase, admissions: Admissions): RecordStore {
  return {
    businesses: createBusinessRecordStore(database, admissions),
    clients: createClientStore(database, admissions),
    leads: createLeadStore(database, admissions),
    invoices: createInvoiceStore(database, admissions),
    proposals: createProposalStore(database, admissions),
    ...createPlainStores(database, admissions),
    events: createEventStore(database),
    imports: createImportStore(database),
  }
}
