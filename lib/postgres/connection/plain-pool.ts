import postgres, { type Sql } from 'postgres'
import type { SqlTransaction } from '../drivers/sql-transaction.ts'
import type { Connection } from './connection.ts'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'
import { nameServer } from './tls.ts'

/** Maximum time to wait for the server when closing a connection, in ms. The socket is closed either way. */
const GOODBYE_MS = 500

/**
 * Opens a regular postgres.js pool with a single connection, for work that needs transactions. The server is one that
 * `target_session_attrs` allows.
 *
 * @throws `TypeError` if the connection string is invalid, without quoting any of it; a network or server error if no
 * server can be used
 */
export async function openPlainPool(url: string): Promise<Sql> {
  const source = readSource(url)
  const options = source.options()
  const isOneServer = options.host.length === 1 && source.targetSessionAttributes() === 'any'
  const address: { host?: string[]; port?: number[] } = isOneServer ? {} : await findServer(url)
  const { host = options.host } = address
  const read = {
    ...options,
    ...address,
    ssl: nameServer(options.ssl, host[0] ?? ''),
    max: 1,
    prepare: false,
    fetch_types: false,
    // `findServer` has already picked a server, and the driver would accept a standby as read-write.
    target_session_attrs: null,
    shared: { retries: 0, typeArrayMap: {} },
  }
  return postgres(read as unknown as Parameters<typeof postgres>[0] & object)
}

/** Closes a pool. The driver would wait forever for a statement whose connection was lost. */
export function closePlainPool(sql: Sql): Promise<void> {
  return sql.end({ timeout: GOODBYE_MS / 1000 })
}

/**
 * Runs `work` in a transaction on its own connection. Closing the connection is how it's rolled back, which also works
 * during a COPY.
 *
 * We don't use the driver's `begin` because postgres.js 3.4.9 would send the rollback of a lost connection to a socket
 * that no longer exists, and that throws outside of any promise.
 *
 * @param mode the isolation level and access mode
 */
export async function inTransaction<Result>(
  url: string,
  mode: string,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const connection = await openPlainConnection(url)
  try {
    await connection.sql.unsafe(`begin isolation level ${mode}`)
    const result = await work(connection.sql)
    await connection.sql.unsafe('commit')
    return result
  } finally {
    await connection.end(0)
  }
}

/** Adapts the transaction of {@link inTransaction} for stores. */
export function transactionOn(sql: Sql): SqlTransaction {
  return { query: (text, parameters) => sql.unsafe(text, [...parameters]) }
}

/** Opens a connection that never reconnects. The server is one that `target_session_attrs` allows. */
function openPlainConnection(url: string): Promise<Connection> {
  const session = { prepare: false, sessions: false, statementTimeoutMs: GOODBYE_MS }
  return createServers(readSource(url), session).open({ onClosed() {} }, new AbortController().signal)
}

async function findServer(url: string): Promise<{ host: string[]; port: number[] }> {
  const connection = await openPlainConnection(url)
  await connection.end(GOODBYE_MS)
  const { host, port } = connection.sql.options
  return { host, port }
}
