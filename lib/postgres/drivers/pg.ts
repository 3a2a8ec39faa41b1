import { type SqlTransaction, unusable } from './sql-transaction.ts'

/** A pg client (`pool.connect()` or `new Client()`). Pools don't have `escapeIdentifier`. */
export interface PgClient {
  query(statement: PgStatement): Promise<{ readonly rows: readonly unknown[][] }>
  escapeIdentifier(text: string): string
}

/** A statement in pg's format. */
export interface PgStatement {
  text: string
  values: unknown[]
  rowMode: 'array'
  types: { getTypeParser(): (value: string) => string }
}

// Keep columns as received, since all of ours are text and the host may have replaced pg's type parsers.
const TYPES = { getTypeParser: () => (value: string) => value }

/**
 * Adapts a pg transaction for `platform.using(…)`.
 *
 * @param client the client on which you sent `begin`
 * @throws `TypeError` if this is a pool, which would commit each statement separately, or a client outside a
 * transaction
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
  const rejectIdle = (): void => {
    // Requires pg 8.20.
    if (Reflect.get(client, 'getTransactionStatus')?.call(client) !== 'I') return
    throw unusable(
      'the client of pg is in no transaction: send begin first, and await each call before commit',
    )
  }
  rejectIdle()
  return {
    async query(text, parameters) {
      const send = (statement: string, values: unknown[]) =>
        client.query({ text: statement, values, rowMode: 'array', types: TYPES })
      // pg queues statements, and the host may just have sent commit. An empty statement waits for these.
      if (Reflect.get(client, 'readyForQuery') === false) await send('', [])
      rejectIdle()
      const { rows } = await send(text, [...parameters])
      return rows
    },
  }
}
