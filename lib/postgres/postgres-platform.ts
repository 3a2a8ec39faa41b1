import type { TransactionalPlatform } from '../platform/platform.ts'
import type { EventOwner } from '../resources/own-events.ts'
import type { Service } from '../service.ts'
import type { PostgresTransaction } from './connection/transaction.ts'
import type { SqlTransaction } from './drivers/sql-transaction.ts'

/**
 * The result of `createPlatform` for a `PostgresStore`. Has the calls for the host's own code, plus `using(tx)` to make
 * them in the host's transaction.
 *
 * @typeParam Own the service if it has custom event types: `typeof service`
 * @example
 * ```ts
 * const platform: PostgresPlatform = createPlatform(createPostgresStore(url))
 * await sql.begin((tx) => platform.using(tx).clients.create('org_42', { name: 'Atlas' }))
 * ```
 */
export type PostgresPlatform<Own extends EventOwner = Service> = TransactionalPlatform<Transaction, Own>
type Transaction = PostgresTransaction | SqlTransaction
