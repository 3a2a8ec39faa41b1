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

/** The connection string of a shard. */
export interface NamedDatabase {
  readonly name: string
  readonly url: string
}

/** Splits before a name, because a connection string may have several hosts with commas between them. */
const NEXT_NAME = /,\s*(?=[^,=/]*=[^,=/]*:\/\/)/

/**
 * Reads `a=postgres://…,b=postgres://…`. No error repeats a part, because of the passwords.
 *
 * @returns in the order of the text; empty for a missing text
 * @throws `UsageError`
 */
export function readDatabaseUrls(text: string | undefined): readonly NamedDatabase[] {
  const named = (text || null)?.split(NEXT_NAME).map((part) => {
    const [, name = '', url = ''] = /^\s*([a-z0-9][a-z0-9_-]{0,62})=(\S*)\s*$/.exec(part) ?? []
    return { name, url }
  })
  if (!named) return []
  const names = new Set(named.map(({ name }) => name))
  if (names.size < named.length || named.some(({ name, url }) => !name || /:\/\/.*:\/\//.test(url))) {
    throw new UsageError(
      'Cannot use DATABASE_URLS because it must be a=postgres://…,b=postgres://…, each shard once, under a name of lower-case letters, digits, - and _',
    )
  }
  return named.map(({ name, url }) => ({ name, url: readDatabaseUrl(url, `DATABASE_URLS (${name})`) }))
}
