import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'

const FORM = 'postgres://user:password@host:5432/database'

/**
 * A connection string that can be used. It is never repeated, as it holds a password; nor can a part of the password be
 * taken for the host, which errors do name.
 *
 * @throws `UsageError`
 */
export function readDatabaseUrl(url: string | undefined): string {
  if (!url) throw new UsageError(`Set DATABASE_URL to a PostgreSQL database, or pass --database-url ${FORM}`)
  const fault = connectionStringFault(url)
  if (fault !== null) throw new UsageError(`Cannot use DATABASE_URL as ${fault}`)
  return url
}
