import postgres, { type Sql } from 'postgres'
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

/**
 * Opens a single connection that never reconnects, for a transaction that may have to be abandoned during a COPY. The
 * server is one that `target_session_attrs` allows.
 */
export function openPlainConnection(url: string): Promise<Connection> {
  const session = { prepare: false, sessions: false, statementTimeoutMs: GOODBYE_MS }
  return createServers(readSource(url), session).open({ onClosed() {} }, new AbortController().signal)
}

async function findServer(url: string): Promise<{ host: string[]; port: number[] }> {
  const connection = await openPlainConnection(url)
  await connection.end(GOODBYE_MS)
  const { host, port } = connection.sql.options
  return { host, port }
}
