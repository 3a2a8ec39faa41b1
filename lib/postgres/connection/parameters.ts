// The parameters of a connection string, and the environment variables that stand for them: the one table of what each means.
// lib/postgres/README.md shows the same table.

/** Parameters that this folder reads, or that are options of postgres.js. */
const HONOURED = `
  application_name channel_binding fallback_application_name keepalives_idle options
  ssl_max_protocol_version ssl_min_protocol_version sslcert sslkey sslmode sslnegotiation sslpassword
  sslrootcert target_session_attrs idle_timeout keep_alive max max_lifetime prepare ssl pgbouncer
  sslaccept`

/** Parameters that only another client needs: libpq, JDBC, Prisma, SQLx, Supabase. */
const IGNORED = `
  gssdelegation gsslib keepalives keepalives_count keepalives_interval krbsrvname sslcompression sslsni
  tcp_user_timeout connect_timeout uselibpqcompat connection_limit currentschema pool_timeout
  preparethreshold schema socket_timeout statement_cache_capacity statement_cache_size supa workaround`

const KNOWN = new Set(`${HONOURED} ${IGNORED}`.trim().split(/\s+/))

/** Parameters that cannot be honoured, and without which the connection would be another. The remedy follows "use " in the message. */
const REJECTED: Readonly<Record<string, { readonly remedy: string; readonly harmless?: readonly string[] }>> =
  {
    client_encoding: {
      remedy: 'no client_encoding, because texts are UTF-8',
      harmless: ['utf8', 'utf-8', 'auto'],
    },
    gssencmode: { remedy: 'sslmode=verify-full', harmless: ['disable', 'prefer'] },
    hostaddr: { remedy: 'the address as the host' },
    load_balance_hosts: { remedy: 'one host, or a load balancer', harmless: ['disable'] },
    passfile: { remedy: 'PGPASSWORD' },
    replication: { remedy: 'no replication', harmless: ['false', 'off', 'no', '0'] },
    require_auth: { remedy: 'sslmode=verify-full' },
    requirepeer: { remedy: 'sslmode=verify-full' },
    service: { remedy: 'the parts of the service in the connection string' },
    servicefile: { remedy: 'the parts of the service in the connection string' },
    sslcertmode: { remedy: 'sslcert and sslkey, or neither', harmless: ['allow'] },
    sslcrl: { remedy: 'an authority of its own for the server, in sslrootcert' },
    sslcrldir: { remedy: 'an authority of its own for the server, in sslrootcert' },
  }

/** The variables that libpq reads for parameters, by parameter. */
const VARIABLES: Readonly<Record<string, string>> = {
  application_name: 'PGAPPNAME',
  channel_binding: 'PGCHANNELBINDING',
  client_encoding: 'PGCLIENTENCODING',
  gssencmode: 'PGGSSENCMODE',
  hostaddr: 'PGHOSTADDR',
  load_balance_hosts: 'PGLOADBALANCEHOSTS',
  options: 'PGOPTIONS',
  require_auth: 'PGREQUIREAUTH',
  requirepeer: 'PGREQUIREPEER',
  service: 'PGSERVICE',
  sslcert: 'PGSSLCERT',
  sslcrl: 'PGSSLCRL',
  sslcrldir: 'PGSSLCRLDIR',
  sslkey: 'PGSSLKEY',
  ssl_max_protocol_version: 'PGSSLMAXPROTOCOLVERSION',
  ssl_min_protocol_version: 'PGSSLMINPROTOCOLVERSION',
  sslmode: 'PGSSLMODE',
  sslnegotiation: 'PGSSLNEGOTIATION',
  sslrootcert: 'PGSSLROOTCERT',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
}

/** The parameters that mean something here. */
export interface Parameters {
  /** Returns the value of a parameter; undefined without one. */
  get(name: string): string | undefined
  /** Parameters that are settings of the server. */
  readonly settings: Readonly<Record<string, string>>
}

/**
 * Checks the parameters of a connection string.
 *
 * @returns the reason why a parameter cannot be used, to follow "because"; null if all can be used
 */
export function parameterFault(given: ReadonlyMap<string, string>): string | null {
  for (const [name, value] of given) {
    const fault = findFault(name, name, value)
    if (fault !== null) return fault
  }
  return null
}

/**
 * Resolves the parameters of a connection string, with the environment for those that are absent. Read when connecting.
 *
 * @throws `TypeError` naming an environment variable that cannot be used
 */
export function resolveParameters(given: ReadonlyMap<string, string>): Parameters {
  const values = new Map([...given].map(([name, value]) => [name.toLowerCase(), value]))
  for (const [name, variable] of Object.entries(VARIABLES)) {
    const value = process.env[variable]
    if (values.has(name) || value === undefined || value === '') continue
    const fault = findFault(name, variable, value)
    if (fault !== null) throw new TypeError(`Cannot connect to PostgreSQL because ${fault}`)
    values.set(name, value)
  }
  const settings = [...values].filter(([name]) => !KNOWN.has(name) && REJECTED[name] === undefined)
  return { get: (name) => values.get(name) || undefined, settings: Object.fromEntries(settings) }
}

function findFault(name: string, shownName: string, value: string): string | null {
  const rejected = REJECTED[name.toLowerCase()]
  if (rejected !== undefined && !rejected.harmless?.includes(value.toLowerCase()))
    return `${shownName} cannot be honoured: use ${rejected.remedy}`
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
    ? `${name}=no-verify is not of libpq: use sslmode=require, which encrypts and does not verify`
    : oneOf(...SSL_MODES)(name, value)

const CHECKS: Readonly<Record<string, Check>> = {
  channel_binding: oneOf('disable', 'prefer', 'require'),
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
