import { CONNECTION_FORM } from '../postgres/connection/connection-string.ts'
import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'

/**
 * A connection string that can be used. No error repeats the connection string, because the string holds a password. Errors do
 * name the host, so no part of the password may be taken for the host.
 *
 * @param source the variable, for messages
 * @throws `UsageError`
 */
export function readDatabaseUrl(url: string | undefined, source = 'DATABASE_URL'): string {
  if (!url)
    throw new UsageError(
      `Set DATABASE_URL to a PostgreSQL database, or pass --database-url ${CONNECTION_FORM}`,
    )
  const fault = connectionStringFault(url)
  if (fault !== null) throw new UsageError(`Cannot use ${source} because ${fault}`)
  return url
}

/** Splits before a name, because a connection string may have several hosts with commas between them. */
const NEXT_NAME = /,\s*(?=[^,=/]*=[^,=/]*:\/\/)/
const SHARD = /^\s*([a-z0-9][a-z0-9_-]{0,62})=(?!.*:\/\/.*:\/\/)(\S*)\s*$/

/**
 * Reads `a=postgres://…,b=postgres://…`. No error repeats a part, because of the passwords.
 *
 * @returns the connection strings by the names of the shards; empty for a missing string
 * @throws `UsageError`
 */
export function readDatabaseUrls(text: string | undefined): ReadonlyMap<string, string> {
  const parts = text ? text.split(NEXT_NAME).map((part) => SHARD.exec(part) ?? []) : []
  const urls = new Map(parts.map(([, name = '', url = '']) => [name, url]))
  if (urls.size < parts.length || urls.has('')) {
    throw new UsageError(
      'Cannot use DATABASE_URLS because it must be a=postgres://…,b=postgres://…, each shard once, under a name of lower-case letters, digits, - and _',
    )
  }
  for (const [name, url] of urls) readDatabaseUrl(url, `DATABASE_URLS (${name})`)
  return urls
}
