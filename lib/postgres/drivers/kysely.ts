import { type SqlRow, type SqlTransaction, unusable } from './sql-transaction.ts'

/** The argument of the callback of Kysely's `db.transaction().execute(…)`, or a controlled transaction. */
export interface KyselyTransaction {
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>
  readonly isTransaction: true
}

/** `CompiledQuery` of kysely. */
export interface KyselyCompiledQuery {
  raw(text: string, parameters?: unknown[]): object
}

/**
 * Makes the host's transaction with Kysely usable for `platform.using(…)`.
 *
 * @param transaction the argument of the callback of `db.transaction().execute(…)`
 * @param compiledQuery `CompiledQuery` of kysely
 * @throws `TypeError` for a database, which would commit each statement by itself
 */
export function kyselyTransaction(
  transaction: KyselyTransaction,
  compiledQuery: KyselyCompiledQuery,
): SqlTransaction {
  if (typeof transaction?.executeQuery !== 'function' || !transaction.isTransaction) {
    throw unusable("it is not the argument of the callback of Kysely's db.transaction().execute(…)")
  }
  return {
    async query(text, parameters) {
      const query = compiledQuery.raw(text, [...parameters])
      const { rows } = await transaction.executeQuery(query as never)
      return rows as readonly SqlRow[]
    },
  }
}
