import { isIPv6 } from 'node:net'
import postgres, { type Sql } from 'postgres'

/** The driver's resolved options, of a connection string or of a host's pool. */
export type DriverOptions = Sql['options']

/** The servers that a connection may lead to, in libpq's words. */
export type TargetSessionAttributes =
  | 'any'
  | 'read-write'
  | 'read-only'
  | 'primary'
  | 'standby'
  | 'prefer-standby'

/** A checked connection string, or a host's pool. */
export interface Source {
  /** The greatest number of connections that the source allows. */
  readonly maxConnections: number
  /** Reads the options and the driver's environment variables (`PGUSER`, `PGPASSWORD` …). */
  options(): DriverOptions
  /** Reads the servers that a connection may lead to, from the source or from `PGTARGETSESSIONATTRS`. */
  targetSessionAttributes(): TargetSessionAttributes
}

const FORM = 'postgres://user:password@host:5432/database'
const DEFAULT_MAX_CONNECTIONS = 10
const DEFAULT_PORT = 5432

const TARGET_SESSION_ATTRIBUTES: readonly string[] = [
  'any',
  'read-write',
  'read-only',
  'primary',
  'standby',
  'prefer-standby',
]

/**
 * Checks a source. Opens no connection, and reads no environment variable.
 *
 * @throws `TypeError` for an unusable source. The message repeats no part of the connection string, because of its password
 */
export function readSource(source: Sql | string): Source {
  if (typeof source === 'string') return readConnectionString(source)
  if (typeof source !== 'function' || !('options' in source))
    throw unusable(`it must be like ${FORM}, or a postgres.js pool${unsetHint(source)}`)
  const { options } = source
  return {
    maxConnections: Number(options.max),
    options: () => options,
    targetSessionAttributes: () => readTargetSessionAttributes(Reflect.get(options, 'target_session_attrs')),
  }
}

function readConnectionString(url: string): Source {
  const reason = connectionStringFault(url)
  if (reason !== null) throw unusable(reason)
  const parameters = new URLSearchParams(url.split('?')[1])
  const target = parameters.get('target_session_attrs')
  readTargetSessionAttributes(target)
  const maxConnections = readMaxConnections(parameters.get('max'))
  let read: DriverOptions | undefined
  return {
    maxConnections,
    options: () => {
      read ??= readOptions(url)
      return read
    },
    targetSessionAttributes: () => readTargetSessionAttributes(target ?? process.env.PGTARGETSESSIONATTRS),
  }
}

/**
 * Finds the fault of a connection string before the driver reads the string. The driver's errors would show the password: an
 * invalid string is repeated whole, and a part of an unencoded password can be taken for the host.
 *
 * @returns the reason, to follow "because" in a message; null for a usable string
 */
export function connectionStringFault(url: string): string | null {
  if (!/^postgres(ql)?:\/\/./.test(url)) return `it must be like ${FORM}`
  const [, ...rest] = url.split('@')
  const [, user = ''] = /^[a-z]+:\/\/(.*)@/s.exec(url) ?? []
  if (rest.length > 1 || url.includes('#') || /[/?]/.test(user)) {
    return 'a password with one of @ / ? # must have them percent-encoded, as %40 %2F %3F %23'
  }
  if (!isDecodable(url)) return 'a % that encodes nothing must be encoded itself, as %25'
  // A URL cannot have several hosts: only the first is checked, and every IPv6 address.
  const isUrl = URL.canParse(url.replace(/,[^/?]*/, '')) && readAddresses(url) !== null
  return isUrl ? null : `it must be like ${FORM}`
}

/** The hosts of a connection string, each with its port; no port: the default. */
type Addresses = readonly { readonly host: string; readonly port: string | undefined }[]

/**
 * Reads the hosts of a connection string with an IPv6 address, `[::1]:5432`: postgres.js ends every host at the first colon.
 *
 * @returns empty for a connection string without an IPv6 address; null for an address that is none
 */
function readAddresses(url: string): Addresses | null {
  const [, hosts = ''] = /^[a-z]+:\/\/(?:[^@]*@)?([^/?]*)/.exec(url) ?? []
  if (!/[[\]]/.test(hosts)) return []
  const addresses = hosts.split(',').map((text) => {
    const [, ipv6, name, port] = /^(?:\[([\da-f:.]+)\]|([^[\]:]+))(?::(\d+))?$/i.exec(text) ?? []
    const host = ipv6 ?? name
    return host === undefined || (ipv6 !== undefined && !isIPv6(ipv6)) ? null : { host, port }
  })
  return addresses.every((address) => address !== null) ? addresses : null
}

function isDecodable(url: string): boolean {
  try {
    return typeof decodeURIComponent(url) === 'string'
  } catch {
    return false
  }
}

/** Replaces the driver's own target_session_attrs, which takes a hot standby for read-write and does not know 'any'. */
const WITHOUT_TARGET = { target_session_attrs: 'primary' } as const

/** Returns the driver's options for an empty connection string. */
export function readDefaults(): DriverOptions {
  return postgres(WITHOUT_TARGET).options
}

function readOptions(url: string): DriverOptions {
  const addresses = readAddresses(url) ?? []
  const hosts =
    addresses.length === 0
      ? {}
      : {
          host: addresses.map(({ host }) => host),
          port: addresses.map(({ port }) => Number(port ?? process.env.PGPORT ?? DEFAULT_PORT)),
        }
  try {
    // The driver takes lists, as its resolved options are; its types do not say so.
    const own: object = { ...WITHOUT_TARGET, ...hosts }
    return postgres(url, own).options
  } catch {
    // Thrown without a cause: ERR_INVALID_URL has the connection string in `input`.
    throw unusable(`it must be like ${FORM}`)
  }
}

function readMaxConnections(value: string | null): number {
  const max = value === null ? DEFAULT_MAX_CONNECTIONS : Number(value)
  if (Number.isInteger(max) && max > 0) return max
  throw unusable('max must be a whole number above 0')
}

function readTargetSessionAttributes(value: unknown): TargetSessionAttributes {
  if (value === undefined || value === null || value === '') return 'any'
  if (TARGET_SESSION_ATTRIBUTES.includes(String(value))) return value as TargetSessionAttributes
  throw unusable(`target_session_attrs must be one of ${TARGET_SESSION_ATTRIBUTES.join(', ')}`)
}

/** The commonest slip: a terminal without the variable. */
function unsetHint(source: unknown): string {
  return source === undefined
    ? ': current value is undefined, is the environment variable DATABASE_URL set?'
    : ''
}

function unusable(reason: string): TypeError {
  return new TypeError(`Cannot use the connection string because ${reason}`)
}
