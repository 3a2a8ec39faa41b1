// Supported connection string parameters and their environment variables, also listed in lib/postgres/README.md.

/** Supported libpq parameters. */
const LIBPQ = names(`
  application_name channel_binding connect_timeout fallback_application_name keepalives_idle options
  ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcrl sslkey sslmode sslnegotiation
  sslpassword sslrootcert target_session_attrs`)

/** Supported options of postgres.js and various providers, plus parameters that only matter to other clients. */
const OTHERS = names(`
  idle_timeout keep_alive max max_lifetime prepare ssl pgbouncer sslaccept
  gssdelegation gsslib keepalives keepalives_count keepalives_interval krbsrvname max_protocol_version servicefile
  sslcompression sslkeylogfile sslsni tcp_user_timeout uselibpqcompat connection_limit currentschema pool_timeout
  preparethreshold schema socket_timeout statement_cache_capacity statement_cache_size supa workaround`)

function names(list: string): readonly string[] {
  return list.trim().split(/\s+/)
}

/** Unsupported libpq parameters that can't be ignored, with a replacement and the values that have no effect. */
const REJECTED: Readonly<Record<string, readonly [remedy: string, ...harmless: string[]]>> = {
  client_encoding: ['client_encoding=utf8', 'utf8', 'utf-8', 'auto'],
  gssencmode: ['sslmode=verify-full', 'disable', 'prefer'],
  hostaddr: ['the address as the host'],
  load_balance_hosts: ['one host, or a load balancer', 'disable'],
  min_protocol_version: ['min_protocol_version=3.0', '3.0'],
  oauth_client_id: ['a password'],
  oauth_issuer: ['a password'],
  passfile: ['PGPASSWORD'],
  replication: ['no replication', 'false', 'off', 'no', '0'],
  require_auth: ['sslmode=verify-full'],
  requirepeer: ['sslmode=verify-full'],
  requiressl: ['sslmode=require', '0'],
  scram_client_key: ['a password'],
  scram_server_key: ['a password'],
  service: ['the parts of the service in the connection string'],
  sslcertmode: ['sslcert and sslkey', 'allow', 'disable'],
  sslcrldir: ['sslcrl, a file'],
}

/** Environment variables that aren't `PG` plus the parameter name without underscores. */
const IRREGULAR: Readonly<Record<string, string>> = {
  application_name: 'PGAPPNAME',
  connect_timeout: 'PGCONNECT_TIMEOUT',
}

/** Resolved connection parameters. */
export interface Parameters {
  get(name: string): string | undefined
  /** Parameters that are server settings. */
  readonly settings: Readonly<Record<string, string>>
}

/** Returns why a connection string parameter can't be used, to be used after "because" in a message, or `null`. */
export function parameterFault(given: ReadonlyMap<string, string>): string | null {
  for (const [name, value] of given) {
    const fault = findFault(name, name, value)
    if (fault !== null) return fault
  }
  return null
}

/**
 * Resolves connection string parameters, falling back to environment variables. Called when connecting.
 *
 * @param hasPassword whether to ignore the environment variable for a password file
 * @throws `TypeError` naming an environment variable that can't be used
 */
export function resolveParameters(given: ReadonlyMap<string, string>, hasPassword: boolean): Parameters {
  const values = new Map([...given].map(([name, value]) => [name.toLowerCase(), value]))
  for (const name of [...LIBPQ, ...Object.keys(REJECTED)]) {
    const variable = IRREGULAR[name] ?? `PG${name.replaceAll('_', '').toUpperCase()}`
    const value = process.env[variable]
    if (values.has(name) || !value || (name === 'passfile' && hasPassword)) continue
    const fault = findFault(name, variable, value)
    if (fault !== null) throw new TypeError(`Cannot connect to PostgreSQL because ${fault}`)
    values.set(name, value)
  }
  const known = new Set([...LIBPQ, ...OTHERS, ...Object.keys(REJECTED)])
  const settings = [...values].filter(([name]) => !known.has(name))
  return { get: (name) => values.get(name) || undefined, settings: Object.fromEntries(settings) }
}

function findFault(name: string, shownName: string, value: string): string | null {
  const [remedy, ...harmless] = REJECTED[name.toLowerCase()] ?? []
  if (remedy !== undefined && !harmless.includes(value.toLowerCase()))
    return `${shownName} is not available in Node: use ${remedy}`
  return CHECKS[name.toLowerCase()]?.(shownName, value) ?? null
}

type Check = (name: string, value: string) => string | null

const oneOf =
  (...values: readonly string[]): Check =>
  (name, value) =>
    values.includes(value) ? null : `${name} must be one of ${values.join(', ')}`

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
const NO_VERIFY = 'no-verify'
const PROTOCOLS = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']

const checkMode: Check = (name, value) =>
  value === NO_VERIFY
    ? `${name}=no-verify is not of libpq: use sslmode=require, which encrypts without verifying`
    : oneOf(...SSL_MODES)(name, value)

const CHECKS: Readonly<Record<string, Check>> = {
  channel_binding: oneOf('disable', 'prefer', 'require'),
  connect_timeout: (name, value) =>
    /^-?\d{1,6}$/.test(value) ? null : `${name} must be a whole number of seconds`,
  max: (name, value) =>
    Number.isInteger(Number(value)) && Number(value) > 0 ? null : `${name} must be a whole number above 0`,
  ssl: (name, value) => (value === 'true' || value === 'false' ? null : checkMode(name, value)),
  sslmode: checkMode,
  sslaccept: oneOf('strict', 'accept_invalid_certs'),
  sslnegotiation: oneOf('postgres', 'direct'),
  ssl_max_protocol_version: oneOf(...PROTOCOLS),
  ssl_min_protocol_version: oneOf(...PROTOCOLS),
  target_session_attrs: oneOf('any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'),
}
