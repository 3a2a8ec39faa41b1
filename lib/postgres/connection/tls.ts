import { readFileSync } from 'node:fs'
import type { ConnectionOptions, SecureVersion } from 'node:tls'
import type { Parameters } from './parameters.ts'

/** TLS levels, from weakest to strongest. */
const LEVELS = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type Level = (typeof LEVELS)[number]

/**
 * Maps `sslmode` and `ssl` to levels. Any other value means `verify-full`. Unlike libpq with `allow` and `prefer`, we
 * never fall back to an unencrypted connection.
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
 * Resolves the TLS parameters to Node's options. If parameters disagree, the strictest one wins.
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
    // We set this explicitly because an environment variable can change the default.
    rejectUnauthorized: level !== 'require',
    ...(level === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  }
}

/**
 * Adds the server name to the TLS options. If the server is an IP address, postgres.js doesn't set one and Node would
 * check the certificate against `localhost`.
 *
 * @param tls the `ssl` option of postgres.js. It is returned unchanged unless it's an object
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
  // Like libpq, we check the certificate if a CA is given. We also do that for a revocation list, which would be
  // useless otherwise.
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
