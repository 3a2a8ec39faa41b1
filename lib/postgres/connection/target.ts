import { isIPv6 } from 'node:net'
import type { Sql } from 'postgres'
import { readSource } from './source.ts'

/** The server, the user and the database of a connection string, with the driver's defaults, without the password. */
export interface ConnectionTarget {
  /** `127.0.0.1:5432` or `[::1]:5432`, several separated by commas, or the path of a Unix socket. */
  readonly server: string
  readonly user: string
  readonly database: string
}

/** Reads the target from a valid connection string, or from a host's pool. Opens no connection. */
export function readTarget(source: Sql | string): ConnectionTarget {
  const { host, port, path, user, database } = readSource(source).options()
  const servers = host.map((name, index) => `${isIPv6(name) ? `[${name}]` : name}:${port[index]}`)
  return { server: path || servers.join(','), user, database }
}

/** Describes a target for messages: `127.0.0.1:5432, user app, database app`. */
export function describeTarget({ server, user, database }: ConnectionTarget): string {
  return `${server}, user ${user}, database ${database}`
}
