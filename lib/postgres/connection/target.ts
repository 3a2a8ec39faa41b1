import { isIPv6 } from 'node:net'
import type { Sql } from 'postgres'
import { readSource } from './source.ts'

/** A connection string's server, user and database, with the driver's defaults and without the password. */
export interface ConnectionTarget {
  /** For example `127.0.0.1:5432` or `[::1]:5432`, a comma-separated list of those, or the path of a Unix socket. */
  readonly server: string
  readonly user: string
  readonly database: string
}

/** Returns the target of a valid connection string or pool without connecting. */
export function readTarget(source: Sql | string): ConnectionTarget {
  const { host, port, path, user, database } = readSource(source).options()
  const servers = host.map((name, index) => `${isIPv6(name) ? `[${name}]` : name}:${port[index]}`)
  return { server: path || servers.join(','), user, database }
}

/** Formats a target for messages, for example `127.0.0.1:5432, user app, database app`. */
export function describeTarget({ server, user, database }: ConnectionTarget): string {
  return `${server}, user ${user}, database ${database}`
}
