import { UsageError } from './failure.ts'
import { suggest } from './names.ts'

const MODES: readonly string[] = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']
/** Names of files for libpq. The driver sends such parameters to the server, and the server refuses the connection. */
const FILES: readonly string[] = ['sslrootcert', 'sslcert', 'sslkey', 'sslcrl', 'sslpassword']

/**
 * Checks the parameters for TLS of a connection string, before the driver fails with an error that is hard to understand.
 *
 * @throws `UsageError`
 */
export function checkTlsParameters(url: string): void {
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
