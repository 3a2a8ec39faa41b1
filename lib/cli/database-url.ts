import { CONNECTION_FORM } from '../postgres/connection/connection-string.ts'
import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'

/**
 * Validates a connection string. Errors never contain the string because it includes a password. They do contain the
 * host, so we have to make sure that it doesn't include part of the password.
 *
 * @param source the name of the variable for messages
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

/** Only matches before a name, because a connection string can list several hosts separated by commas. */
const NEXT_NAME = /,\s*(?=[^,=/]*=[^,=/]*:\/\/)/
const SHARD = /^\s*([a-z0-9][a-z0-9_-]{0,62})=(?!.*:\/\/.*:\/\/)(\S*)\s*$/

/**
 * Parses `a=postgres://…,b=postgres://…`. Errors never contain any part of it because of the passwords.
 *
 * @returns the connection strings by name of the shard. Empty if there is no string
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
