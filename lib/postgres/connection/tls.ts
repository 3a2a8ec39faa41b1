import { readFileSync } from 'node:fs'
import type { ConnectionOptions, SecureVersion } from 'node:tls'
import type { Parameters } from './parameters.ts'

/** How much a connection checks, weakest first. */
const LEVELS = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type Level = (typeof LEVELS)[number]

/**
 * The levels of `sslmode` and `ssl`; any other value is `verify-full`. Nothing falls back to plain text, as `allow` and `prefer` of
 * libpq do.
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
 * Resolves the parameters for TLS into Node's options. The connection is never weaker than one of the parameters says.
 *
 * @returns false: no TLS
 * @throws `TypeError` for a file that cannot be read
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
  // As in libpq, an authority that is named is also checked. So is a list of revoked certificates, which means nothing without a check.
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
