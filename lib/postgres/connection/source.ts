import postgres, { type Sql } from 'postgres'

/** The options of connections as the driver has read them, of a connection string or of a host's pool. */
export type DriverOptions = Sql['options']

/** The servers that a connection may lead to, in the words of libpq. */
export type TargetSessionAttributes =
  | 'any'
  | 'read-write'
  | 'read-only'
  | 'primary'
  | 'standby'
  | 'prefer-standby'

/** A checked connection string, or a host's pool as it is. */
export interface Source {
  /** The connections that the source allows at most. */
  readonly maxConnections: number
  /** Reads the options, and the environment variables that the driver knows (`PGUSER`, `PGPASSWORD`). */
  options(): DriverOptions
  /** Reads the servers that a connection may lead to, from the source or from `PGTARGETSESSIONATTRS`. */
  targetSessionAttributes(): TargetSessionAttributes
}

const FORM = 'postgres://user:password@host:5432/database'
const DEFAULT_MAX_CONNECTIONS = 10

const TARGET_SESSION_ATTRIBUTES: readonly string[] = [
  'any',
  'read-write',
  'read-only',
  'primary',
  'standby',
  'prefer-standby',
]

/**
 * Checks a source. Opens nothing, and reads no environment variable.
 *
 * @throws `TypeError` without any part of the connection string, which holds a password
 */
export function readSource(source: Sql | string): Source {
  if (typeof source === 'string') return readConnectionString(source)
  if (typeof source !== 'function' || !('options' in source))
    throw unusable(`it must be like ${FORM}, or a postgres.js pool`)
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
 * Finds what is wrong with a connection string, before the driver throws an error that repeats it with its password, or
 * takes a part of the password for the host, which errors name.
 *
 * @returns the reason, to follow "as"; null for a string that can be used
 */
export function connectionStringFault(url: string): string | null {
  if (!/^postgres(ql)?:\/\/./.test(url)) return `it must be like ${FORM}`
  const [, ...rest] = url.split('@')
  const [, user = ''] = /^[a-z]+:\/\/(.*)@/s.exec(url) ?? []
  if (rest.length > 1 || url.includes('#') || /[/?]/.test(user)) {
    return 'a password with one of @ / ? # must have them percent-encoded, as %40 %2F %3F %23'
  }
  if (!isDecodable(url)) return 'a % that encodes nothing must be encoded itself, as %25'
  // Of several hosts, which a URL cannot have, the first.
  return URL.canParse(url.replace(/,[^/?]*/, '')) ? null : `it must be like ${FORM}`
}

function isDecodable(url: string): boolean {
  try {
    return typeof decodeURIComponent(url) === 'string'
  } catch {
    return false
  }
}

/** The driver's own target_session_attrs takes a hot standby for read-write and does not know 'any': it is obeyed here. */
const WITHOUT_TARGET = { target_session_attrs: 'primary' } as const

/** Reads the options of a connection string that names nothing. */
export function readDefaults(): DriverOptions {
  return postgres(WITHOUT_TARGET).options
}

function readOptions(url: string): DriverOptions {
  try {
    return postgres(url, WITHOUT_TARGET).options
  } catch {
    // Without the error as a cause: ERR_INVALID_URL has the connection string in `input`.
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

function unusable(reason: string): TypeError {
  return new TypeError(`Cannot use the connection string as ${reason}`)
}
