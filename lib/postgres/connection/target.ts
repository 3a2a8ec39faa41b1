import { isIPv6 } from 'node:net'
import type { Sql } from 'postgres'
import { readSource } from './source.ts'

/** The server, user and database of a connection string, with the driver's defaults and without the password. */
export interface ConnectionTarget {
  /** For example `127.0.0.1:5432` or `[::1]:5432`, a comma-separated list of these, or the path of a Unix socket. */
  readonly server: string
  readonly user: string
  readonly database: string
}

/** Reads the target of a valid connection string or of the host's pool. Doesn't open a connection. */
export function readTarget(source: Sql | string): ConnectionTarget {
  const { host, port, path, user, database } = readSource(source).options()
  const servers = host.map((name, index) => `${isIPv6(name) ? `[${name}]` : name}:${port[index]}`)
  return { server: path || servers.join(','), user, database }
}

/** Formats a target for messages, for example `127.0.0.1:5432, user app, database app`. */
export function describeTarget({ server, user, database }: ConnectionTarget): string {
  return `${server}, user ${user}, database ${database}`
}
