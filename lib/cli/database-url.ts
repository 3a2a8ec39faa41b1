import { CONNECTION_FORM } from '../postgres/connection/connection-string.ts'
import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'

/**
 * Validates a connection string. Errors never include the string because of the password. Since the host is included,
 * we must make sure that no part of the password ends up in the host.
 *
 * @param source the variable's name, for messages
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

/** Only matches before a name, because a connection string can have multiple hosts separated by commas. */
const NEXT_NAME = /,\s*(?=[^,=/]*=[^,=/]*:\/\/)/
const SHARD = /^\s*([a-z0-9][a-z0-9_-]{0,62})=(?!.*:\/\/.*:\/\/)(\S*)\s*$/

/**
 * Parses `a=postgres://…,b=postgres://…`. Errors never include any part of this because of the passwords.
 *
 * @returns the connection strings by shard name. Empty if there are none
 * @throws `UsageError`
 */
export function readDatabaseUrls(text: string | undefined): ReadonlyMap<string, string> {
  const parts = text ? text.split(NEXT_NAME).map((part) => SHARD.exec(part) ?? []) : []
  const urls = new Map(parts.map(([, name = '', url = '']) => [name, url]))
  if (urls.size < parts.length || urls.has('')) {
    throw new UsageError(
      'DATABASE_URLS must be a=postgres://…,b=postgres://…, each shard once, under a name of lower-case letters, digits, - and _',
    )
  }
  for (const [name, url] of urls) readDatabaseUrl(url, `DATABASE_URLS (${name})`)
  return urls
}
