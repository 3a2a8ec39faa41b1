import { type SqlTransaction, unusable } from './sql-transaction.ts'

/** A client of pg (`pool.connect()` or `new Client()`) as far as the store needs it. A pool has no `escapeIdentifier`. */
export interface PgClient {
  query(statement: PgStatement): Promise<{ readonly rows: readonly unknown[][] }>
  escapeIdentifier(text: string): string
}

/** A statement in the form that pg takes. */
export interface PgStatement {
  text: string
  values: unknown[]
  rowMode: 'array'
  types: { getTypeParser(): (value: string) => string }
}

// The host may have replaced pg's parser of a type. The columns are text, and stay as received.
const TYPES = { getTypeParser: () => (value: string) => value }

/**
 * Makes the host's transaction with pg usable for `platform.using(…)`.
 *
 * @param client the client that the host has sent `begin` with
 * @throws `TypeError` for a pool, which would commit each statement by itself, and for a client without a transaction
 */
export function pgTransaction(client: PgClient): SqlTransaction {
  if (typeof client?.query !== 'function' || typeof client.escapeIdentifier !== 'function') {
    throw unusable('it is no client of pg: pass the client of pool.connect() after it has sent begin')
  }
  // Since pg 8.20.
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
