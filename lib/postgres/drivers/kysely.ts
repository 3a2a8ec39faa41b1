import { type SqlRow, type SqlTransaction, unusable } from './sql-transaction.ts'

/** The argument of Kysely's `db.transaction().execute(…)` callback, or a controlled transaction. */
export interface KyselyTransaction {
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>
  readonly isTransaction: true
}

/** `CompiledQuery` from kysely. */
export interface KyselyCompiledQuery {
  raw(text: string, parameters?: unknown[]): object
}

/**
 * Adapts a Kysely transaction for `platform.using(…)`.
 *
 * @param transaction the argument of the `db.transaction().execute(…)` callback
 * @param compiledQuery `CompiledQuery` from kysely
 * @throws `TypeError` if this is a database outside a transaction, which would commit each statement separately
 * @example
 * ```ts
 * await kysely.transaction().execute(async (tx) => {
 *   await platform.using(kyselyTransaction(tx, CompiledQuery)).invoices.issue('org_42', { invoiceId })
 * })
 * ```
 */
export function kyselyTransaction(
  transaction: KyselyTransaction,
  compiledQuery: KyselyCompiledQuery,
): SqlTransaction {
  if (typeof transaction?.executeQuery !== 'function' || !transaction.isTransaction) {
    throw unusable("it is not the argument of the callback of Kysely's db.transaction().execute(…)")
  }
  if (typeof compiledQuery?.raw !== 'function')
    throw unusable('the second argument is not the CompiledQuery of kysely')
  return {
    async query(text, parameters) {
      const query = compiledQuery.raw(text, [...parameters])
      const { rows } = await transaction.executeQuery(query as never)
      return rows as readonly SqlRow[]
    },
  }
}
