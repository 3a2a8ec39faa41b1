import { INVALID_RESPONSE, SendError } from './send-error.ts'

/** Reads the head of each response. Rewrites heads that undici rejects although other HTTP clients accept them. */
export interface HeadReader {
  /**
   * @param piece the next bytes received
   * @returns the bytes to parse now. Empty while the head is incomplete
   * @throws {@link SendError} if there are too many interim responses
   */
  read(piece: Buffer): Buffer
  /** Must be called when the response is complete. The next bytes start another one. */
  end(): void
}

/** Maximum number of interim responses (1xx) before a response. Real servers send one or two. */
const INTERIM_RESPONSES_MAX = 16

/** A head including the blank line at its end. Lines may end with just LF (RFC 9112, section 2.2). */
const HEAD = /^.*?\r?\n\r?\n/s
const STATUS_LINE = /^HTTP\/1\.(\d) (\d{3})(?= |\r?\n)/
/** Some servers leave blank lines after the previous body. */
const BLANK_LINES = /^(?:\r?\n)+/
/** Headers with names that undici accepts, not including the two that define the length of the body. */
const PLAIN_HEADERS = String.raw`(?:(?!content-length:|transfer-encoding:)[\w!#$%&'*+.^${'`'}|~-]+:[^\r\n\0]*\r\n)*`
const FRAMING_HEADER = String.raw`(?:content-length:[ \t]*\d{1,15}|transfer-encoding:[ \t]*chunked)[ \t]*\r\n`
/** Matches heads that undici can read unchanged. It's a single expression because it runs for every attempt. */
const PLAIN_HEAD = new RegExp(
  String.raw`^HTTP/1\.[01] (?:(?:204|304)[^\r\n\0]*\r\n${PLAIN_HEADERS}|` +
    String.raw`(?!204|304)[2-5]\d\d[^\r\n\0]*\r\n${PLAIN_HEADERS}(?:${FRAMING_HEADER}${PLAIN_HEADERS})?)\r\n`,
  'i',
)
const HEADER = /^([\w!#$%&'*+.^`|~-]+)[ \t]*:[ \t]*([^\r\0]*?)[ \t]*$/
/** A response can start with a blank line or HTTP. */
const BEGINNINGS = Buffer.from('\r\nH')
const NO_BYTES = Buffer.alloc(0)
const LINE_FEED = 10

/**
 * Creates the reader of a connection. The head is all we need to know if an attempt succeeded, so a body with broken
 * framing shouldn't hide the status. Such a body is read until the connection closes. Interim responses are skipped,
 * including an unsolicited `100 Continue` (RFC 9110, section 15.2).
 *
 * @param advance called after each interim response
 */
export function createHeadReader(advance: () => void): HeadReader {
  let isInBody = false
  let interimResponses = 0
  /** The pieces of an incomplete head. The caller limits their size. */
  let pieces: Buffer[] = []

  function readHead(bytes: Buffer): Buffer {
    let text = bytes.toString('latin1')
    for (;;) {
      text = text.replace(BLANK_LINES, '')
      if (PLAIN_HEAD.test(text)) {
        isInBody = true
        return text.length === bytes.length ? bytes : Buffer.from(text, 'latin1')
      }
      const head = HEAD.exec(text)?.[0]
      if (head === undefined) {
        pieces = text === '' ? [] : [Buffer.from(text, 'latin1')]
        return NO_BYTES
      }
      if (!isInterim(head)) {
        isInBody = true
        return Buffer.from(rewriteHead(head) + text.slice(head.length), 'latin1')
      }
      interimResponses += 1
      if (interimResponses > INTERIM_RESPONSES_MAX)
        throw new SendError(INVALID_RESPONSE, `more than ${INTERIM_RESPONSES_MAX} interim responses`)
      text = text.slice(head.length)
      advance()
    }
  }

  return {
    read(piece) {
      // Other protocols may not send a line feed. undici rejects them right away.
      isInBody ||= pieces.length === 0 && !BEGINNINGS.includes(piece[0] ?? 0)
      if (isInBody) return piece
      // A head ends with a line feed. As long as there isn't one, we don't need to parse everything again.
      if (!piece.includes(LINE_FEED)) {
        pieces.push(piece)
        return NO_BYTES
      }
      const bytes = pieces.length === 0 ? piece : Buffer.concat([...pieces, piece])
      pieces = []
      return readHead(bytes)
    },
    end() {
      isInBody = false
      interimResponses = 0
      pieces = []
    },
  }
}

/** Returns `true` for interim responses, but not for 101, because undici doesn't support switching protocols. */
function isInterim(head: string): boolean {
  const status = STATUS_LINE.exec(head)?.[2]
  return status?.startsWith('1') === true && status !== '101'
}

/** Returns a head that undici can read, or the same head if no client can read it. */
function rewriteHead(head: string): string {
  const [, minor, status] = STATUS_LINE.exec(head) ?? []
  if (status === undefined) return head
  const headers = readHeaders(head)
  if (!headers) return head
  const lines = headers.filter(([name]) => !/^(?:content-length|transfer-encoding)$/i.test(name))
  return [
    `HTTP/1.${minor === '0' ? 0 : 1} ${status} `,
    ...[...lines, ...frame(headers, status === '204' || status === '304')].map(
      ([name, value]) => `${name}: ${value}`,
    ),
    '\r\n',
  ].join('\r\n')
}

type Header = readonly [name: string, value: string]

/** Returns the headers with folded lines joined (RFC 9112, section 5.2), or `null` if a line isn't a header. */
function readHeaders(head: string): readonly Header[] | null {
  const lines = head
    .replace(/\r?\n[ \t]+/g, ' ')
    .trimEnd()
    .split(/\r?\n/)
    .slice(1)
  const headers: Header[] = []
  for (const line of lines) {
    const [, name, value] = HEADER.exec(line) ?? []
    if (name === undefined || value === undefined) return null
    headers.push([name, value])
  }
  return headers
}

const CLOSE: Header = ['Connection', 'close']

/** Returns the framing headers that remain according to RFC 9112, section 6.3. */
function frame(headers: readonly Header[], isWithoutBody: boolean): readonly Header[] {
  const valuesOf = (wanted: string): string[] =>
    headers
      .filter(([name]) => name.toLowerCase() === wanted)
      .flatMap(([, value]) => value.split(','))
      .map((value) => value.trim().toLowerCase())
  const lengths = [...new Set(valuesOf('content-length'))]
  const codings = valuesOf('transfer-encoding')
  const [length = ''] = lengths
  if (isWithoutBody) return codings.length === 0 && (length === '' || length === '0') ? [] : [CLOSE]
  if (codings.at(-1) === 'chunked')
    return [['Transfer-Encoding', 'chunked'], ...(lengths.length > 0 ? [CLOSE] : [])]
  const isLength = codings.length === 0 && lengths.length === 1 && /^\d{1,15}$/.test(length)
  if (isLength) return [['Content-Length', length]]
  return codings.length + lengths.length > 0 ? [CLOSE] : []
}
