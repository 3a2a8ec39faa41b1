import { connectionStringFault } from '../postgres/connection/source.ts'
import { UsageError } from './failure.ts'
import { suggest } from './names.ts'

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
  checkTlsParameters(url)
  return url
}

const MODES: readonly string[] = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']
/** Names of files for libpq. The driver sends such parameters to the server, and the server refuses the connection. */
const FILES: readonly string[] = ['sslrootcert', 'sslcert', 'sslkey', 'sslcrl', 'sslpassword']

/** Checks the parameters for TLS, before the driver fails with an error that is hard to understand. */
function checkTlsParameters(url: string): void {
  const parameters = new URLSearchParams(url.split('?')[1] ?? '')
  const file = FILES.find((name) => parameters.has(name))
  if (file !== undefined) {
    throw new UsageError(
      `Cannot use ${file} in DATABASE_URL because certificates are not read from there; leave it out, and name an authority in NODE_EXTRA_CA_CERTS=/path/ca.pem`,
    )
  }
  const mode = parameters.get('sslmode')
  if (mode === null || MODES.includes(mode)) return
  throw new UsageError(
    `Cannot use sslmode in DATABASE_URL because it must be one of ${MODES.join(', ')}${suggest(mode, MODES)}`,
  )
}
