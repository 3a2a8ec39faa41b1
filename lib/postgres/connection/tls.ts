import { readFileSync } from 'node:fs'
import type { ConnectionOptions, SecureVersion } from 'node:tls'
import type { Parameters } from './parameters.ts'

/** TLS levels, weakest first. */
const LEVELS = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type Level = (typeof LEVELS)[number]

/**
 * TLS levels. Anything else means `verify-full`. Unlike in libpq, `allow` and `prefer` don't fall back to plain text.
 */
const LEVEL_OF: Readonly<Record<string, Level>> = {
  disable: 'disable',
  false: 'disable',
  allow: 'require',
  prefer: 'require',
  require: 'require',
  'verify-ca': 'verify-ca',
}

/**
 * Resolves the TLS parameters to Node's options. In case of conflict, the strictest parameter wins.
 *
 * @returns `false` if TLS is disabled
 * @throws `TypeError` if a file can't be read
 */
export function resolveTls(parameters: Parameters): ConnectionOptions | false {
  const level = readLevel(parameters)
  if (level === 'disable') return false
  const read = (name: string): Buffer | undefined => readFile(name, parameters.get(name))
  const hasCertificate = parameters.get('sslcertmode') !== 'disable'
  const files = {
    ca: parameters.get('sslrootcert') === 'system' ? undefined : read('sslrootcert'),
    crl: read('sslcrl'),
    cert: hasCertificate ? read('sslcert') : undefined,
    key: hasCertificate ? read('sslkey') : undefined,
    passphrase: parameters.get('sslpassword'),
    minVersion: parameters.get('ssl_min_protocol_version') as SecureVersion | undefined,
    maxVersion: parameters.get('ssl_max_protocol_version') as SecureVersion | undefined,
  }
  const given = Object.fromEntries(Object.entries(files).filter(([, value]) => value !== undefined))
  return {
    ...given,
    // Explicit because an environment variable can change the default.
    rejectUnauthorized: level !== 'require',
    ...(level === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  }
}

/**
 * Adds the server name to the TLS options. postgres.js doesn't set one for IP addresses, and Node would check the
 * certificate against `localhost`.
 *
 * @param tls the `ssl` option of postgres.js, returned unchanged unless it's an object
 */
export function nameServer<Tls>(tls: Tls, host: string): Tls {
  return typeof tls === 'object' && tls !== null ? { ...tls, host } : tls
}

function readLevel(parameters: Parameters): Level {
  const when = (name: string, value: string, level: Level): Level =>
    parameters.get(name) === value ? level : 'disable'
  const levels = [
    LEVEL_OF[parameters.get('sslmode') ?? 'disable'] ?? 'verify-full',
    LEVEL_OF[parameters.get('ssl') ?? 'disable'] ?? 'verify-full',
    when('channel_binding', 'require', 'verify-full'),
    when('sslaccept', 'strict', 'verify-full'),
    when('sslnegotiation', 'direct', 'require'),
    when('sslrootcert', 'system', 'verify-full'),
  ]
  const level = LEVELS[Math.max(...levels.map((one) => LEVELS.indexOf(one)))] ?? 'verify-full'
  // Like libpq, check the certificate if a CA is given. A revocation list would be useless without the check.
  const isChecked = (parameters.get('sslrootcert') ?? parameters.get('sslcrl')) !== undefined
  return level === 'require' && isChecked ? 'verify-ca' : level
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
