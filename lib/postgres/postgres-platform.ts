import type { TransactionalPlatform } from '../platform/platform.ts'
import type { EventOwner } from '../resources/own-events.ts'
import type { Service } from '../service.ts'
import type { PostgresTransaction } from './connection/transaction.ts'
import type { SqlTransaction } from './drivers/sql-transaction.ts'

/**
 * The calls of the host's own code on a PostgreSQL store, with `using(tx)` for the host's transaction: what `createPlatform` returns
 * for a `PostgresStore`.
 *
 * @typeParam Own the service with event types of its own: `typeof service`
 * @example
 * ```ts
 * const platform: PostgresPlatform = createPlatform(createPostgresStore(url))
 * await sql.begin((tx) => platform.using(tx).clients.create('org_42', { name: 'Atlas' }))
 * ```
 */
export type PostgresPlatform<Own extends EventOwner = Service> = TransactionalPlatform<Transaction, Own>
type Transaction = PostgresTransaction | SqlTransaction
