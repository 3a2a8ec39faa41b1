import type { Sql } from 'postgres'
import { rejectUnknown } from '../base/options.ts'
import type { BusinessApiStore, RecordStore, TransactionStore } from '../business-store.ts'
import { defineService, readService, type Service } from '../service.ts'
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
import type { Entries, ShardPlace, StoredPlace } from './shards/shard-place.ts'
import { callFor } from './statements/statement.ts'

/** Options for `createPostgresStore`. */
export interface PostgresStoreOptions<Own extends Service = Service> extends DatabaseOptions {
  /**
   * The service, as returned by `defineService(…)`. Must be the same in every process. Defaults to a service with the
   * default names.
   */
  service?: Own | undefined
}

/**
 * A store in PostgreSQL, which is the reference implementation.
 *
 * @typeParam Own the store's service: `typeof service`
 */
export interface PostgresStore<Own extends Service = Service> extends BusinessApiStore, AsyncDisposable {
  readonly service: Own
  readonly installation: PostgresInstallation
  /**
   * Returns a store for records, events and replies whose writes are part of the host's transaction. A failed statement
   * aborts the transaction, so statements are never retried.
   *
   * @param transaction the argument of the `sql.begin` callback in postgres.js, or another driver's transaction,
   * wrapped with `pgTransaction`, `drizzleTransaction`, `kyselyTransaction` or `prismaTransaction`
   * @throws `TypeError` if this is a pool, which would commit each statement separately
   */
  using(transaction: PostgresTransaction | SqlTransaction): TransactionStore
  /**
   * Closes the store once all running requests and statements have finished. In the meantime, new requests get a 503,
   * but statements are still sent because they may belong to a running request. After that, all statements are
   * rejected. If you passed a pool, it stays open. Close the HTTP server, the delivery loop and the sender first.
   *
   * @param options.timeoutMs time to wait in milliseconds, after which everything else fails with `store_unavailable`.
   * Defaults to 4000. The store is closed at most 500 ms later, even if the network is silent
   */
  close(options?: CloseOptions): Promise<void>
  /**
   * Reads which shard the database is. Used by `createShardedStore`.
   *
   * @param first the place to assign if the database has none with this version, or `null` to assign none
   * @param options.transaction runs the query in the host's transaction instead of on the store's connections
   * @param options.told shard map entries to store in the database
   * @returns `null` if the database isn't a shard
   */
  shardPlace(
    first?: ShardPlace | null,
    options?: {
      readonly transaction?: PostgresTransaction | SqlTransaction
      readonly told?: Entries
    },
  ): Promise<StoredPlace | null>
  /**
   * Finds the owners of API keys, and where the affected organizations are. Used by `createShardedStore`.
   *
   * @param slots the slots encoded in the keys
   */
  shardKeys(digests: readonly string[], slots?: readonly number[]): Promise<ShardKeys>
  /**
   * Waits for a lock by name, in a transaction on an additional connection. Used by `createShardedStore`.
   *
   * @returns a function that releases the lock
   */
  hold(name: string): Promise<() => void>
}

/**
 * Creates a store in the schema `business_api` of a PostgreSQL database. Run `migrate` first to create the schema. The
 * first statement opens the first connection. Idle connections don't keep the process alive.
 *
 * @param source a connection string, or your postgres.js pool. Either way, the store opens its own connections to the
 * same server, with the same user, TLS and session parameters
 * @throws `TypeError` or `RangeError` if an argument is invalid. The message doesn't quote the connection string
 * @example
 * ```ts
 * const store = createPostgresStore(process.env.DATABASE_URL ?? '', { maxConnections: 20 })
 * ```
 */
export function createPostgresStore<Own extends Service = Service>(
  source: Sql | string,
  given: PostgresStoreOptions<Own> = {},
): PostgresStore<Own> {
  rejectUnknown(given, { ...DATABASE_NAMES, service: true })
  const { service, ...options } = given
  return createStoreOn(createDatabase(source, options), readService(service)) as PostgresStore<Own>
}

/**
 * Creates a store on the given database. Tests use this to observe the statements.
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
    shardPlace(first = null, { transaction, told = {} } = {}) {
      const own = transaction ? inTransaction(transaction) : database
      return callFor(own, null, 'shard_place(jsonb, jsonb)', JSON.stringify(first), JSON.stringify(told))
    },
    shardKeys: (digests, slots) => readShardKeys(database, digests, slots),
    hold: database.hold,
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
