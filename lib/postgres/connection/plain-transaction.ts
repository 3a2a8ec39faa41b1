import type { Sql } from 'postgres'
import type { SqlTransaction } from '../drivers/sql-transaction.ts'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'

/**
 * Runs `work` in a transaction of any duration on its own connection, which never reconnects. Closing the connection is
 * how it's rolled back, which also works during a COPY. The server is one that `target_session_attrs` allows.
 *
 * We don't use the driver's `begin` because postgres.js 3.4.9 would send the rollback of a lost connection to a socket
 * that no longer exists, and that throws outside of any promise.
 *
 * @param source a connection string, or a postgres.js pool from which the options are taken
 * @param mode the isolation level and access mode
 * @throws `TypeError` if the connection string is invalid, without quoting any of it; a network or server error if no
 * server can be used
 */
export async function inTransaction<Result>(
  source: Sql | string,
  mode: string,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const readable = readSource(source)
  const session = { prepare: false, sessions: false, statementTimeoutMs: 0 }
  // Longer than the store's timeout, because a server that starts on demand can take more than 5 seconds.
  const openTimeoutMs = readable.options().connect_timeout * 1000 || undefined
  const servers = createServers(readable, session, openTimeoutMs)
  const connection = await servers.open({ onClosed() {} }, new AbortController().signal)
  try {
    await connection.sql.unsafe(`begin isolation level ${mode}`)
    await connection.sql.unsafe(WITHOUT_TIMEOUTS)
    const result = await work(connection.sql)
    const { command } = await connection.sql.unsafe('commit')
    // After a failed statement whose error was caught, PostgreSQL rolls back instead.
    if (command !== 'COMMIT')
      throw new Error('Cannot commit the transaction because a statement in it failed')
    return result
  } finally {
    await connection.end(0)
  }
}

/** Turns off the timeouts of the server, database and role. `transaction_timeout` requires PostgreSQL 17. */
const WITHOUT_TIMEOUTS = `
  select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings
   where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

/** Adapts the transaction of {@link inTransaction} for stores. */
export function transactionOn(sql: Sql): SqlTransaction {
  return { query: (text, parameters) => sql.unsafe(text, [...parameters]) }
}
