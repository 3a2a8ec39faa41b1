import type { TLSSocket } from 'node:tls'

/** The attempt exceeded its time limit in any part before the body: waiting for a connection, DNS, connect, TLS or headers. */
export const TIMEOUT = 'timeout'

/** Nothing listens there. */
export const CONNECTION_REFUSED = 'connection_refused'

/** The other side ended the connection before the head of the response was complete. */
export const CONNECTION_RESET = 'connection_reset'

/** No connection came about for another reason: no route, no free socket on this side. */
export const CONNECTION_FAILED = 'connection_failed'

/** The name servers of the name failed. For a name that does not exist see {@link DESTINATION_REFUSED}. */
export const DNS_FAILED = 'dns_failed'

/** The certificate has expired, or is not valid yet. */
export const TLS_CERTIFICATE_EXPIRED = 'tls_certificate_expired'

/** The certificate is for another name. */
export const TLS_WRONG_NAME = 'tls_wrong_name'

/** The certificate is not signed by an authority that this process trusts, or was revoked. */
export const TLS_UNTRUSTED = 'tls_untrusted'

/** The other side wants a client certificate. */
export const TLS_CLIENT_CERTIFICATE_REQUIRED = 'tls_client_certificate_required'

/** No encryption was agreed on for another reason: the other side does not speak TLS, or only an old version. */
export const TLS_FAILED = 'tls_failed'

/**
 * The URL or an address is rejected, or the name does not exist: see `judgeUrl` and `judgeUnresolved`. The customer does
 * not learn the difference.
 */
export const DESTINATION_REFUSED = 'destination_not_allowed'

/** HTTP cannot carry a header with a line break or a character outside Latin-1. Nothing was sent. */
export const INVALID_REQUEST = 'invalid_request'

/**
 * No usable response: not HTTP/1.1, a switch of protocols, or a head without end (more than 16 KiB, or more than 16
 * interim responses).
 */
export const INVALID_RESPONSE = 'invalid_response'

/** The caller's signal ended the attempt. */
export const INTERRUPTED = 'interrupted'

/**
 * A fault of this side: the sender is closed, undici cannot be loaded, or a bug. The subscriber may not have been
 * contacted.
 */
export const SENDER_FAILED = 'sender_failed'

/** Every `error` in a response from `createWebhookSender`. */
export type SendErrorCode =
  | typeof TIMEOUT
  | typeof CONNECTION_REFUSED
  | typeof CONNECTION_RESET
  | typeof CONNECTION_FAILED
  | typeof DNS_FAILED
  | typeof TLS_CERTIFICATE_EXPIRED
  | typeof TLS_WRONG_NAME
  | typeof TLS_UNTRUSTED
  | typeof TLS_CLIENT_CERTIFICATE_REQUIRED
  | typeof TLS_FAILED
  | typeof DESTINATION_REFUSED
  | typeof INVALID_REQUEST
  | typeof INVALID_RESPONSE
  | typeof INTERRUPTED
  | typeof SENDER_FAILED

/** Why an attempt had no response. The message is for the operator. The error never leaves the sender. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly code: SendErrorCode

  constructor(code: SendErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** The codes of Node and undici that have the same meaning in every part of an attempt. */
const MEANINGS: Readonly<Record<string, SendErrorCode>> = {
  ECONNREFUSED: CONNECTION_REFUSED,
  ECONNRESET: CONNECTION_RESET,
  ECONNABORTED: CONNECTION_RESET,
  EPIPE: CONNECTION_RESET,
  UND_ERR_SOCKET: CONNECTION_RESET,
  ETIMEDOUT: TIMEOUT,
  EPROTO: TLS_FAILED,
  CERT_HAS_EXPIRED: TLS_CERTIFICATE_EXPIRED,
  CERT_NOT_YET_VALID: TLS_CERTIFICATE_EXPIRED,
  ERR_TLS_CERT_ALTNAME_INVALID: TLS_WRONG_NAME,
  HOSTNAME_MISMATCH: TLS_WRONG_NAME,
  CERT_CHAIN_TOO_LONG: TLS_UNTRUSTED,
  CERT_REJECTED: TLS_UNTRUSTED,
  CERT_REVOKED: TLS_UNTRUSTED,
  CERT_SIGNATURE_FAILURE: TLS_UNTRUSTED,
  CERT_UNTRUSTED: TLS_UNTRUSTED,
  DEPTH_ZERO_SELF_SIGNED_CERT: TLS_UNTRUSTED,
  INVALID_CA: TLS_UNTRUSTED,
  INVALID_PURPOSE: TLS_UNTRUSTED,
  PATH_LENGTH_EXCEEDED: TLS_UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: TLS_UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: TLS_UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: TLS_UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: TLS_UNTRUSTED,
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: TLS_CLIENT_CERTIFICATE_REQUIRED,
  // Alerts about this side's certificate, which doesn't exist: Java and Go send them.
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: TLS_CLIENT_CERTIFICATE_REQUIRED,
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN: TLS_CLIENT_CERTIFICATE_REQUIRED,
  ERR_SSL_SSLV3_ALERT_NO_CERTIFICATE: TLS_CLIENT_CERTIFICATE_REQUIRED,
  UND_ERR_INVALID_ARG: INVALID_REQUEST,
  UND_ERR_NOT_SUPPORTED: INVALID_REQUEST,
  UND_ERR_HEADERS_OVERFLOW: INVALID_RESPONSE,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: CONNECTION_RESET,
  // Thrown by undici for a status below 100.
  ERR_ASSERTION: INVALID_RESPONSE,
}

/**
 * Translates an error of Node or undici.
 *
 * @param otherwise the code for an error without a meaning of its own
 */
export function toSendError(error: unknown, otherwise: SendErrorCode): SendError {
  if (error instanceof SendError) return error
  if (error instanceof AggregateError) return mostTelling(error, otherwise)
  return new SendError(readMeaning(error) ?? otherwise, describe(error), { cause: error })
}

/**
 * Translates the error of a TLS handshake. OpenSSL answers over TLS 1.2 to a missing client certificate as to a missing cipher: with
 * `handshake_failure`. But then it has sent its own certificate.
 */
export function toHandshakeError(error: Error, socket: TLSSocket | undefined): Error {
  const isAfterCertificate =
    'code' in error &&
    error.code === 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE' &&
    Object.keys(socket?.getPeerCertificate() ?? {}).length > 0
  if (!isAfterCertificate) return error
  return new SendError(TLS_CLIENT_CERTIFICATE_REQUIRED, error.message, { cause: error })
}

/** Several addresses were tried. A refused connection is a sign of life; from the other addresses nothing was received. */
function mostTelling(error: AggregateError, otherwise: SendErrorCode): SendError {
  const meanings = error.errors.map(readMeaning)
  const meaning = meanings.includes(CONNECTION_REFUSED) ? CONNECTION_REFUSED : meanings.find(Boolean)
  return new SendError(meaning ?? otherwise, error.errors.map(describe).join('; '), { cause: error })
}

function readMeaning(error: unknown): SendErrorCode | undefined {
  if (error instanceof Error && error.name === 'HTTPParserError') return readParserMeaning(error)
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  // undici has the same code for a closed connection and for a response that undici rejects.
  if (code === 'UND_ERR_SOCKET' && /^bad /.test(describe(error))) return INVALID_RESPONSE
  if (MEANINGS[code]) return MEANINGS[code]
  if (code.startsWith('ERR_TLS_') || code.startsWith('ERR_SSL_')) return TLS_FAILED
  return undefined
}

/** undici's parser errors should have a code of llhttp, but the code is `undefined` (7.30). */
function readParserMeaning({ message }: Error): SendErrorCode {
  return message.includes('Invalid EOF state') ? CONNECTION_RESET : INVALID_RESPONSE
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
