import { type SqlTransaction, unusable } from './sql-transaction.ts'

/** What the store needs of a pg client (`pool.connect()` or `new Client()`). A pool has no `escapeIdentifier`. */
export interface PgClient {
  query(statement: PgStatement): Promise<{ readonly rows: readonly unknown[][] }>
  escapeIdentifier(text: string): string
}

/** A statement in the format that pg accepts. */
export interface PgStatement {
  text: string
  values: unknown[]
  rowMode: 'array'
  types: { getTypeParser(): (value: string) => string }
}

// The host may have replaced pg's type parsers. All our columns are text, so we keep them as received.
const TYPES = { getTypeParser: () => (value: string) => value }

/**
 * Adapts a pg transaction for `platform.using(…)`.
 *
 * @param client the client you have sent `begin` on
 * @throws `TypeError` if it's a pool, which would commit each statement separately, or a client outside a transaction
 * @example
 * ```ts
 * const client = await pool.connect()
 * await client.query('begin')
 * await platform.using(pgTransaction(client)).invoices.issue('org_42', { invoiceId })
 * await client.query('commit')
 * ```
 */
export function pgTransaction(client: PgClient): SqlTransaction {
  if (typeof client?.query !== 'function' || typeof client.escapeIdentifier !== 'function') {
    throw unusable('it is not a client of pg: pass the client of pool.connect() after sending begin')
  }
  // Available since pg 8.20.
  if (Reflect.get(client, 'getTransactionStatus')?.call(client) === 'I') {
    throw unusable('the client of pg is in no transaction: send begin first')
  }
  return {
    async query(text, parameters) {
      const { rows } = await client.query({ text, values: [...parameters], rowMode: 'array', types: TYPES })
      return rows
    },
  }
}
