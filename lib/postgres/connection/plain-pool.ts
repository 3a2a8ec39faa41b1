import postgres, { type Sql } from 'postgres'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'

/** For the goodbye to the server, after which the socket is closed in any case. */
const GOODBYE_MS = 500

/**
 * Opens a pool of one connection to the database of a connection string, for work that needs transactions: the driver's own
 * pool, to the server that `target_session_attrs` allows.
 *
 * @throws `TypeError` for a connection string that cannot be used, without repeating it; the error of the network or of the
 *   server when none of several servers can be used
 */
export async function openPlainPool(url: string): Promise<Sql> {
  const source = readSource(url)
  const options = source.options()
  const isOneServer = options.host.length === 1 && source.targetSessionAttributes() === 'any'
  const address = isOneServer ? {} : await findServer(url)
  const read = {
    ...options,
    ...address,
    max: 1,
    prepare: false,
    fetch_types: false,
    // Obeyed above; the driver takes a standby for read-write.
    target_session_attrs: null,
    shared: { retries: 0, typeArrayMap: {} },
  }
  return postgres(read as unknown as Parameters<typeof postgres>[0] & object)
}

async function findServer(url: string): Promise<{ host: string[]; port: number[] }> {
  const session = { prepare: false, sessions: false, statementTimeoutMs: GOODBYE_MS }
  const servers = createServers(readSource(url), session)
  const connection = await servers.open({ onClosed() {} }, new AbortController().signal)
  await connection.end(GOODBYE_MS)
  const { host, port } = connection.sql.options
  return { host, port }
}
