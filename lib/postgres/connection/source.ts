import postgres, { type Sql } from 'postgres'
import { CONNECTION_FORM, type ConnectionString, parseConnectionString } from './connection-string.ts'
import { type Parameters, parameterFault, resolveParameters } from './parameters.ts'
import { resolveTls } from './tls.ts'

/** Resolved driver options, from a connection string or the host's pool. */
export type DriverOptions = Sql['options']

/** The servers that a connection may use, in libpq's terms. */
export type TargetSessionAttributes =
  | 'any'
  | 'read-write'
  | 'read-only'
  | 'primary'
  | 'standby'
  | 'prefer-standby'

/** A validated connection string, or the host's pool. */
export interface Source {
  /** Maximum number of connections, as set by the source. */
  readonly maxConnections: number
  /** `true` for a connection string with `pgbouncer=true`, i.e. behind a pooler in transaction mode. */
  readonly isTransactionPooled: boolean
  /**
   * Resolves the options, including libpq's environment variables (`PGUSER`, `PGPASSWORD`, `PGSSLMODE` …) and TLS
   * files.
   *
   * @throws `TypeError` if a variable or file can't be used
   */
  options(): DriverOptions
  /** Returns the allowed servers, as set by the source or `PGTARGETSESSIONATTRS`. */
  targetSessionAttributes(): TargetSessionAttributes
  /** Returns the timeout per host in milliseconds from `connect_timeout` or `PGCONNECT_TIMEOUT`, if set. */
  connectTimeoutMs(): number | undefined
}

const DEFAULT_MAX_CONNECTIONS = 10
const DEFAULT_PORT = 5432
/** The driver's default connect timeout, in ms. */
const DEFAULT_CONNECT_TIMEOUT_MS = 30_000

/**
 * Validates a source without opening connections or reading environment variables.
 *
 * @throws `TypeError` if the source can't be used. Since a connection string contains a password, the message doesn't
 * quote any of it
 */
export function readSource(source: Sql | string): Source {
  if (typeof source === 'string') return readConnectionString(source)
  if (typeof source !== 'function' || !('options' in source))
    throw unusable(`it must be like ${CONNECTION_FORM}, or a postgres.js pool${unsetHint(source)}`)
  const { options } = source
  return {
    maxConnections: Number(options.max),
    isTransactionPooled: false,
    options: () => options,
    targetSessionAttributes: () =>
      (Reflect.get(options, 'target_session_attrs') || 'any') as TargetSessionAttributes,
    connectTimeoutMs: () => undefined,
  }
}

function readConnectionString(url: string): Source {
  const parsed = parse(url)
  if (typeof parsed === 'string') throw unusable(parsed)
  const { parameters: given, password } = parsed
  let resolved: Parameters | undefined
  const parameters = (): Parameters => {
    resolved ??= resolveParameters(given, Boolean(password ?? process.env.PGPASSWORD))
    return resolved
  }
  let options: DriverOptions | undefined
  return {
    maxConnections: Number(given.get('max') ?? DEFAULT_MAX_CONNECTIONS),
    isTransactionPooled: given.get('pgbouncer') === 'true',
    options: () => {
      options ??= resolveOptions(parsed, parameters())
      return options
    },
    targetSessionAttributes: () =>
      (parameters().get('target_session_attrs') ?? 'any') as TargetSessionAttributes,
    connectTimeoutMs: () => timeoutOf(parameters()),
  }
}

/** In libpq, 0 means no timeout. We never wait forever, so our default applies. */
function timeoutOf(parameters: Parameters): number | undefined {
  const seconds = Number(parameters.get('connect_timeout') ?? 0)
  return seconds > 0 ? seconds * 1000 : undefined
}

/** Returns why a connection string is invalid, or `null`. The driver's own errors would include the password. */
export function connectionStringFault(url: string): string | null {
  const parsed = parse(url)
  return typeof parsed === 'string' ? parsed : null
}

function parse(url: string): ConnectionString | string {
  const parsed = parseConnectionString(url)
  return typeof parsed === 'string' ? parsed : (parameterFault(parsed.parameters) ?? parsed)
}

/** Disables the driver's target_session_attrs, which accepts a hot standby as read-write and lacks `any`. */
const WITHOUT_TARGET = { target_session_attrs: 'primary' } as const

/** Returns the driver's options for an empty connection string. */
export function readDefaults(): DriverOptions {
  return postgres(WITHOUT_TARGET).options
}

/** Resolves a connection string and the environment to driver options. */
function resolveOptions(
  { hosts, ports, user, password, database }: ConnectionString,
  parameters: Parameters,
): DriverOptions {
  const { PGHOST, PGPORT } = process.env
  const host = hosts.length > 0 ? hosts : (PGHOST ?? 'localhost').split(',')
  const givenPorts = ports.some((port) => port !== undefined) ? ports : (PGPORT ?? '').split(',').map(Number)
  const port = host.map(
    (_name, index) => (givenPorts.length === 1 ? givenPorts[0] : givenPorts[index]) || DEFAULT_PORT,
  )
  const folder = host.find((name) => name.startsWith('/'))
  if (folder !== undefined && host.length > 1)
    throw new TypeError(
      'Cannot connect to PostgreSQL because the folder of a socket can only be the single host',
    )
  const own: object = {
    ...WITHOUT_TARGET,
    host,
    port,
    ...(folder === undefined ? {} : { path: `${folder}/.s.PGSQL.${port[0]}` }),
    ...defined({
      user,
      pass: password,
      database,
      max: toNumber(parameters.get('max')),
      idle_timeout: toNumber(parameters.get('idle_timeout')),
      max_lifetime: toNumber(parameters.get('max_lifetime')),
      keep_alive: toNumber(parameters.get('keep_alive') ?? parameters.get('keepalives_idle')),
      sslnegotiation: parameters.get('sslnegotiation') === 'direct' ? 'direct' : undefined,
    }),
    connect_timeout: (timeoutOf(parameters) ?? DEFAULT_CONNECT_TIMEOUT_MS) / 1000,
    prepare: parameters.get('prepare') !== 'false' && parameters.get('pgbouncer') !== 'true',
    ssl: folder === undefined && resolveTls(parameters),
    connection: {
      ...parameters.settings,
      ...defined({
        application_name: parameters.get('application_name') ?? parameters.get('fallback_application_name'),
        options: parameters.get('options'),
      }),
    },
  }
  return postgres(own).options
}

function toNumber(value: string | undefined): number | undefined {
  return value === undefined ? undefined : Number(value)
}

function defined(values: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

/** Hints at the most common mistake, a missing DATABASE_URL. */
function unsetHint(source: unknown): string {
  return source === undefined
    ? ': current value is undefined, is the environment variable DATABASE_URL set?'
    : ''
}

function unusable(reason: string): TypeError {
  return new TypeError(`Cannot use the connection string because ${reason}`)
}
