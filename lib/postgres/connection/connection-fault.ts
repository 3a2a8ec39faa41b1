// Human-readable reasons why connecting to PostgreSQL failed, with advice. See driver-faults.ts for more codes.

const FAULTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused; is it running?',
  ECONNRESET: 'the connection was broken',
  EPIPE: 'the connection was broken',
  ENOTFOUND: 'its host name is unknown; check the host in the connection string',
  EAI_AGAIN: 'its host name could not be resolved; check the DNS of this machine',
  EHOSTUNREACH: 'its host cannot be reached',
  ENETUNREACH: 'its network cannot be reached',
  ENOENT: 'its socket does not exist; is it running?',
  ETIMEDOUT: 'it did not respond in time; does a firewall block the connection?',
  CONNECT_TIMEOUT: 'it did not respond in time; does a firewall block the connection?',
  CONNECTION_CLOSED: 'the connection was closed',
  CONNECTION_DESTROYED: 'the connection was closed',
  '28000':
    'this user does not exist or may not connect; check the user in the connection string, pg_hba.conf of the server, and whether it requires sslmode=require',
  '28P01': 'the password was rejected; check the user and the password in the connection string',
  '3D000': 'no database has that name; check the name in the connection string, or create the database',
  '53300': 'too many connections are open already; close some, or raise max_connections',
  '57P03': 'the server is starting up or shutting down; try again',
  ERR_TLS_REFUSED: 'the server does not speak TLS; leave sslmode out of the connection string',
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted('its certificate is self-signed'),
  SELF_SIGNED_CERT_IN_CHAIN: untrusted('its certificate authority is not trusted here'),
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted('its certificate authority is not trusted here'),
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted('its certificate authority is not trusted here'),
  CERT_REVOKED: 'its certificate was revoked; give the server a new one',
  CERT_HAS_EXPIRED: 'its certificate has expired; renew the certificate on the server',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'its certificate is for another name; use that name in the connection string, or sslmode=require to encrypt without a check',
}

function untrusted(reason: string): string {
  return `${reason}; name the authority in sslrootcert=/path/ca.pem, or use sslmode=require to encrypt without a check`
}

/**
 * Describes why a connection failed.
 *
 * @returns a reason with advice about "the connection string", to be used after a colon in a message, or `null` if
 * connecting isn't what failed
 */
export function connectionFault(error: unknown): string | null {
  const { code, message, severity } = readError(error)
  // A server without TLS hangs up during negotiation.
  if (/before secure TLS connection/.test(message)) return FAULTS.ERR_TLS_REFUSED ?? null
  if (code === '28000' && /no encryption|SSL off/.test(message)) {
    return 'it accepts only encrypted connections; add ?sslmode=require to the connection string'
  }
  if (code === '28000' && /SSL (encryption|on)/.test(message)) {
    return 'it accepts no encrypted connections; leave sslmode out of the connection string'
  }
  // FATAL means that the session couldn't be opened. In an open session, these codes are about a statement's values.
  if (severity === 'FATAL' && (code === UNDEFINED_OBJECT || code === INVALID_PARAMETER_VALUE)) {
    // Quotation marks depend on the server's locale.
    const [, name] = /["«»„]\s?([\w.]+)/.exec(message) ?? []
    return `it rejects ${name === undefined ? 'a parameter' : `the parameter ${name}`}; correct the parameter in the connection string, or leave it out`
  }
  return FAULTS[code] ?? null
}

const UNDEFINED_OBJECT = '42704'
const INVALID_PARAMETER_VALUE = '22023'

function readError(error: unknown): Readonly<Record<'code' | 'message' | 'severity', string>> {
  if (!(error instanceof Error)) return { code: '', message: '', severity: '' }
  const textOf = (property: string): string => String(Reflect.get(error, property) ?? '')
  return { code: textOf('code'), message: error.message, severity: textOf('severity') }
}
