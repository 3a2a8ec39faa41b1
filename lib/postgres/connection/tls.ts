import { readFileSync } from 'node:fs'
import type { ConnectionOptions, SecureVersion } from 'node:tls'
import type { Parameters } from './parameters.ts'

/** How much a connection checks, weakest first. `allow` and `prefer` of libpq are `require`: nothing falls back to plain text. */
const LEVELS = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type Level = (typeof LEVELS)[number]

/**
 * Resolves the parameters for TLS into Node's options. The connection is never weaker than one of the parameters says.
 *
 * @returns false: no TLS
 * @throws `TypeError` for a file that cannot be read
 */
export function resolveTls(parameters: Parameters): ConnectionOptions | false {
  const level = readLevel(parameters)
  if (level === 'disable') return false
  const rootCertificate = parameters.get('sslrootcert')
  const files = {
    ca: rootCertificate === 'system' ? undefined : readFile('sslrootcert', rootCertificate),
    cert: readFile('sslcert', parameters.get('sslcert')),
    key: readFile('sslkey', parameters.get('sslkey')),
    passphrase: parameters.get('sslpassword'),
    minVersion: parameters.get('ssl_min_protocol_version') as SecureVersion | undefined,
    maxVersion: parameters.get('ssl_max_protocol_version') as SecureVersion | undefined,
  }
  const given = Object.fromEntries(Object.entries(files).filter(([, value]) => value !== undefined))
  return {
    ...given,
    // Explicit, because an environment variable can turn the default off.
    rejectUnauthorized: level !== 'require',
    ...(level === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  }
}

/**
 * Adds the server's name to the options of TLS: postgres.js names no server that is an address, and Node would then check the
 * certificate for the name `localhost`.
 *
 * @param tls the option `ssl` of postgres.js. Anything but an object of {@link resolveTls} stays as the host wrote it
 */
export function nameServer<Tls>(tls: Tls, host: string): Tls {
  return typeof tls === 'object' && tls !== null ? { ...tls, host } : tls
}

function readLevel(parameters: Parameters): Level {
  const rootCertificate = parameters.get('sslrootcert')
  const levels = [
    levelOfMode(parameters.get('sslmode')),
    levelOfMode(parameters.get('ssl')),
    parameters.get('channel_binding') === 'require' ? 'verify-full' : 'disable',
    parameters.get('sslaccept') === 'strict' ? 'verify-full' : 'disable',
    parameters.get('sslnegotiation') === 'direct' ? 'require' : 'disable',
    rootCertificate === 'system' ? 'verify-full' : 'disable',
  ] as const
  const level = LEVELS[Math.max(...levels.map((one) => LEVELS.indexOf(one)))] ?? 'verify-full'
  // As in libpq, an authority that is named is also checked.
  return level === 'require' && rootCertificate !== undefined ? 'verify-ca' : level
}

function levelOfMode(mode: string | undefined): Level {
  switch (mode) {
    case undefined:
    case 'disable':
    case 'false':
      return 'disable'
    case 'allow':
    case 'prefer':
    case 'require':
      return 'require'
    case 'verify-ca':
      return 'verify-ca'
    default:
      return 'verify-full'
  }
}

function readFile(name: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined
  try {
    return readFileSync(path)
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason'
    throw new TypeError(`Cannot connect to PostgreSQL because the file of ${name} cannot be read: ${reason}`)
  }
}
