import type { TLSSocket } from 'node:tls'

/** Timed out while waiting for a connection, or during DNS, connect, TLS or headers. Doesn't apply to the body. */
export const TIMEOUT = 'timeout'

/** Nothing is listening at the address. */
export const CONNECTION_REFUSED = 'connection_refused'

/** The other side closed the connection before the response head was complete. */
export const CONNECTION_RESET = 'connection_reset'

/** The connection failed for another reason, for example because there was no route or we ran out of sockets. */
export const CONNECTION_FAILED = 'connection_failed'

/** The DNS servers failed. If the hostname doesn't exist, the code is {@link DESTINATION_REFUSED}. */
export const DNS_FAILED = 'dns_failed'

/** The certificate has expired or isn't valid yet. */
export const TLS_CERTIFICATE_EXPIRED = 'tls_certificate_expired'

/** The certificate is for a different hostname. */
export const TLS_WRONG_NAME = 'tls_wrong_name'

/** The certificate was revoked, or isn't signed by an authority that this process trusts. */
export const TLS_UNTRUSTED = 'tls_untrusted'

/** The other side requires a client certificate. */
export const TLS_CLIENT_CERTIFICATE_REQUIRED = 'tls_client_certificate_required'

/** TLS failed for another reason. For example, the other side doesn't support it, or only supports an old version. */
export const TLS_FAILED = 'tls_failed'

/** The URL or an address isn't allowed (see `judgeUrl`), or the name doesn't exist. We don't tell customers which. */
export const DESTINATION_REFUSED = 'destination_not_allowed'

/** A header has a line break or a character outside Latin-1, which isn't valid in HTTP. Nothing was sent. */
export const INVALID_REQUEST = 'invalid_request'

/** The response isn't HTTP/1.1, switches protocols, or its head never ends (over 16 KiB or 16 interim responses). */
export const INVALID_RESPONSE = 'invalid_response'

/** The caller's signal interrupted the attempt. */
export const INTERRUPTED = 'interrupted'

/** A problem on our side, such as a closed sender, missing undici or a bug. Nothing may have been sent. */
export const SENDER_FAILED = 'sender_failed'

/** All possible `error` values in the results of `createWebhookSender`. */
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

/** Why an attempt got no response. The message is for operators. This error never leaves the sender. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly code: SendErrorCode

  constructor(code: SendErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** Node and undici error codes that mean the same thing in every phase of an attempt. */
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
  // Java and Go send these about our client certificate, even though we don't have one.
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: TLS_CLIENT_CERTIFICATE_REQUIRED,
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN: TLS_CLIENT_CERTIFICATE_REQUIRED,
  ERR_SSL_SSLV3_ALERT_NO_CERTIFICATE: TLS_CLIENT_CERTIFICATE_REQUIRED,
  UND_ERR_INVALID_ARG: INVALID_REQUEST,
  UND_ERR_NOT_SUPPORTED: INVALID_REQUEST,
  UND_ERR_HEADERS_OVERFLOW: INVALID_RESPONSE,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: CONNECTION_RESET,
  // undici throws this if the status is below 100.
  ERR_ASSERTION: INVALID_RESPONSE,
}

/**
 * Converts an error from Node or undici.
 *
 * @param otherwise the code to use if there's no better match
 */
export function toSendError(error: unknown, otherwise: SendErrorCode): SendError {
  if (error instanceof SendError) return error
  if (error instanceof AggregateError) return mostTelling(error, otherwise)
  return new SendError(readMeaning(error) ?? otherwise, describe(error), { cause: error })
}

/**
 * Converts a TLS handshake error. In TLS 1.2, OpenSSL sends `handshake_failure` for both a missing client certificate
 * and a missing cipher. In the first case, the server has already sent its own certificate.
 */
export function toHandshakeError(error: Error, socket: TLSSocket | undefined): Error {
  const isAfterCertificate =
    'code' in error &&
    error.code === 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE' &&
    Object.keys(socket?.getPeerCertificate() ?? {}).length > 0
  if (!isAfterCertificate) return error
  return new SendError(TLS_CLIENT_CERTIFICATE_REQUIRED, error.message, { cause: error })
}

/** If we tried multiple addresses, a refused connection says the most because it shows that a machine is there. */
function mostTelling(error: AggregateError, otherwise: SendErrorCode): SendError {
  const meanings = error.errors.map(readMeaning)
  const meaning = meanings.includes(CONNECTION_REFUSED) ? CONNECTION_REFUSED : meanings.find(Boolean)
  return new SendError(meaning ?? otherwise, error.errors.map(describe).join('; '), { cause: error })
}

function readMeaning(error: unknown): SendErrorCode | undefined {
  if (error instanceof Error && error.name === 'HTTPParserError') return readParserMeaning(error)
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  // undici uses this code for closed connections as well as responses it rejects.
  if (code === 'UND_ERR_SOCKET' && /^bad /.test(describe(error))) return INVALID_RESPONSE
  if (MEANINGS[code]) return MEANINGS[code]
  if (code.startsWith('ERR_TLS_') || code.startsWith('ERR_SSL_')) return TLS_FAILED
  return undefined
}

/** undici's parser errors should have an llhttp code, but it's `undefined` (7.30). */
function readParserMeaning({ message }: Error): SendErrorCode {
  return message.includes('Invalid EOF state') ? CONNECTION_RESET : INVALID_RESPONSE
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
