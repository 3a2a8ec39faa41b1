// The parameters of a connection string, and the environment variables that stand for them: the one table of what each means.
// lib/postgres/README.md shows the same table.

/** What a parameter means: nothing, something that this library honours, or something that it cannot honour. */
type Meaning =
  /** Only another client needs the parameter. */
  | 'ignored'
  /** Read by this folder, or an option of postgres.js. */
  | 'honoured'
  /** Leaving the parameter out would change what the connection is: the remedy follows "use " in the message. */
  | { readonly remedy: string; readonly harmless?: readonly string[] }

const MEANINGS: Readonly<Record<string, Meaning>> = {
  // libpq
  application_name: 'honoured',
  channel_binding: 'honoured',
  fallback_application_name: 'honoured',
  keepalives_idle: 'honoured',
  options: 'honoured',
  ssl_max_protocol_version: 'honoured',
  ssl_min_protocol_version: 'honoured',
  sslcert: 'honoured',
  sslkey: 'honoured',
  sslmode: 'honoured',
  sslnegotiation: 'honoured',
  sslpassword: 'honoured',
  sslrootcert: 'honoured',
  target_session_attrs: 'honoured',
  gssdelegation: 'ignored',
  gsslib: 'ignored',
  keepalives: 'ignored',
  keepalives_count: 'ignored',
  keepalives_interval: 'ignored',
  krbsrvname: 'ignored',
  sslcompression: 'ignored',
  sslsni: 'ignored',
  tcp_user_timeout: 'ignored',
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
  // postgres.js and node-postgres
  connect_timeout: 'ignored',
  idle_timeout: 'honoured',
  keep_alive: 'honoured',
  max: 'honoured',
  max_lifetime: 'honoured',
  prepare: 'honoured',
  ssl: 'honoured',
  uselibpqcompat: 'ignored',
  // Prisma, Supabase, SQLx, JDBC
  pgbouncer: 'honoured',
  sslaccept: 'honoured',
  connection_limit: 'ignored',
  currentschema: 'ignored',
  pool_timeout: 'ignored',
  preparethreshold: 'ignored',
  schema: 'ignored',
  socket_timeout: 'ignored',
  statement_cache_capacity: 'ignored',
  statement_cache_size: 'ignored',
  supa: 'ignored',
  workaround: 'ignored',
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
  const settings = [...values].filter(([name]) => MEANINGS[name] === undefined)
  return { get: (name) => values.get(name) || undefined, settings: Object.fromEntries(settings) }
}

function findFault(name: string, shownName: string, value: string): string | null {
  const meaning = MEANINGS[name.toLowerCase()]
  if (typeof meaning === 'object' && !meaning.harmless?.includes(value.toLowerCase()))
    return `${shownName} cannot be honoured: use ${meaning.remedy}`
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
