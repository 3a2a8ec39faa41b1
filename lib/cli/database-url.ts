import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'

const FORM = 'postgres://user:password@host:5432/database'

/**
 * A connection string that can be used. No error repeats the connection string, because the string holds a password. Errors do
 * name the host, so no part of the password may be taken for the host.
 *
 * @throws `UsageError`
 */
export function readDatabaseUrl(url: string | undefined): string {
  if (!url) throw new UsageError(`Set DATABASE_URL to a PostgreSQL database, or pass --database-url ${FORM}`)
  const fault = connectionStringFault(url)
  if (fault !== null) throw new UsageError(`Cannot use DATABASE_URL because ${fault}`)
  return url
}
