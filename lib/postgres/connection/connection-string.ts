import { isIPv6 } from 'node:net'

/** A parsed connection string. Missing parts are taken from the environment, as in libpq. */
export interface ConnectionString {
  /** Hostnames, IP addresses or a Unix socket directory. Empty if no host is given. */
  readonly hosts: readonly string[]
  /** One port per host, or a single port for all hosts. `undefined` if not given. */
  readonly ports: readonly (number | undefined)[]
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  /** All other query parameters. */
  readonly parameters: ReadonlyMap<string, string>
}

/** The connection string format shown in error messages. */
export const CONNECTION_FORM = 'postgres://user:password@host:5432/database'

const WRONG_FORM = `it must be like ${CONNECTION_FORM}, and in a password each of @ / ? # % percent-encoded: %40 %2F %3F %23 %25`

/** Captures the credentials, hosts, database and query. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^@/?#]*)(?:\/([^@?#]*))?(?:\?([^#]*))?$/i

/**
 * Parses a connection string the way libpq does. Every part may be percent-encoded, there may be multiple hosts, IPv6
 * addresses are in brackets, and `host`, `port`, `user`, `password` and `dbname` may be given as parameters.
 *
 * @returns the parts, or the reason why the string is invalid, to be used after "because" in a message. The reason
 * never quotes the string, since an unencoded password could be anywhere in it
 */
export function parseConnectionString(url: string): ConnectionString | string {
  const parts = PARTS.exec(url)
  if (parts === null) return WRONG_FORM
  const [, credentials, authority = '', path, query = ''] = parts
  try {
    const parameters = new Map(query === '' ? [] : query.split('&').map(readParameter))
    // The question mark probably came from an unencoded password.
    if (![...parameters.keys()].every((name) => /^[a-z_][\w.]*$/i.test(name))) return WRONG_FORM
    if (credentials === undefined && /:\d+$/.test(authority) && query.split('&').some(holdsHost))
      return WRONG_FORM
    const take = (name: string): string | undefined => {
      const value = parameters.get(name)
      parameters.delete(name)
      return value === '' ? undefined : value
    }
    const [user, password] = credentials === undefined ? [] : splitOnce(credentials, ':')
    const host = take('host')
    const port = take('port')
    const addresses = readAddresses(authority)
    if (addresses === null) return WRONG_FORM
    const ports = port === undefined ? addresses.map((address) => address.port) : port.split(',').map(Number)
    if (!ports.every((one) => one === undefined || (Number.isInteger(one) && one > 0 && one < 65_536)))
      return 'a port must be a whole number from 1 to 65535'
    return {
      hosts: host === undefined ? addresses.map((address) => address.host) : host.split(','),
      ports,
      user: take('user') ?? decode(user),
      password: take('password') ?? decode(password),
      database: take('dbname') ?? decode(path),
      parameters,
    }
  } catch {
    // A `%` isn't followed by two hex digits.
    return WRONG_FORM
  }
}

/** Parameters whose values may contain an at sign. */
const FREE = /^(application_name|dbname|fallback_application_name|host|options|password|ssl\w+|user)=/

/** Detects an unencoded password with a question mark, such as in `user:12?x=secret@host/app`. */
function holdsHost(parameter: string): boolean {
  return !FREE.test(parameter) && /@[\w.[-]/.test(parameter)
}

function readParameter(text: string): [name: string, value: string] {
  const [name, value = ''] = splitOnce(text, '=')
  return [decodeParameter(name), decodeParameter(value)]
}

/** Unlike libpq, decodes a plus sign as a space, since Node's `URL` encodes spaces that way. */
function decodeParameter(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '))
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function decode(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : decodeURIComponent(text)
}

interface Address {
  readonly host: string
  readonly port: number | undefined
}

/** Parses a host list such as `one:5432,[::1]:5433,%2Fvar%2Frun`. Returns `null` if any of the hosts is invalid. */
function readAddresses(authority: string): readonly Address[] | null {
  if (authority === '') return []
  const addresses = authority.split(',').map((text): Address | null => {
    const [, ipv6, name = '', port] = /^(?:\[([\da-f:.]+)\]|([^[\]:\s]*))(?::(\d+))?$/i.exec(text) ?? []
    const host = ipv6 ?? decodeURIComponent(name)
    return host === '' || (ipv6 !== undefined && !isIPv6(ipv6))
      ? null
      : { host, port: port === undefined ? undefined : Number(port) }
  })
  return addresses.every((address) => address !== null) ? addresses : null
}
