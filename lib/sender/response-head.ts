import { INVALID_RESPONSE, SendError } from './send-error.ts'

/** Reads response heads. Rewrites heads that undici rejects even though other HTTP clients accept them. */
export interface HeadReader {
  /**
   * @param piece the next bytes received
   * @returns the bytes to parse now. Empty while the head is incomplete
   * @throws {@link SendError} if there are too many interim responses
   */
  read(piece: Buffer): Buffer
  /** Must be called when the response is complete. Whatever comes next starts another response. */
  end(): void
}

/** Maximum number of interim responses (1xx). Real servers send one or two. */
const INTERIM_RESPONSES_MAX = 16

/** A head including its final blank line. Lines may end with just LF (RFC 9112, section 2.2). */
const HEAD = /^.*?\r?\n\r?\n/s
const STATUS_LINE = /^HTTP\/1\.(\d) (\d{3})(?= |\r?\n)/
/** Some servers leave blank lines after the previous body. */
const BLANK_LINES = /^(?:\r?\n)+/
/** Headers with names that undici accepts, except for the two that define the body's length. */
const PLAIN_HEADERS = String.raw`(?:(?!content-length:|transfer-encoding:)[\w!#$%&'*+.^${'`'}|~-]+:[^\r\n\0]*\r\n)*`
const FRAMING_HEADER = String.raw`(?:content-length:[ \t]*\d{1,15}|transfer-encoding:[ \t]*chunked)[ \t]*\r\n`
/** Matches heads that undici can read as is. A single expression, since this runs for every attempt. */
const PLAIN_HEAD = new RegExp(
  String.raw`^HTTP/1\.[01] (?:(?:204|304)[^\r\n\0]*\r\n${PLAIN_HEADERS}|` +
    String.raw`(?!204|304)[2-5]\d\d[^\r\n\0]*\r\n${PLAIN_HEADERS}(?:${FRAMING_HEADER}${PLAIN_HEADERS})?)\r\n`,
  'i',
)
/** A value's words and the spaces between them are matched apart, because anyone can send 16 KiB of spaces. */
const HEADER = /^([\w!#$%&'*+.^`|~-]+)[ \t]*:[ \t]*(?:([^\r\0 \t]+(?:[ \t]+[^\r\0 \t]+)*)[ \t]*)?$/
/** A response starts with "HTTP" or a blank line. */
const BEGINNINGS = Buffer.from('\r\nH')
const NO_BYTES = Buffer.alloc(0)
const LINE_FEED = 10

/**
 * Creates a connection's head reader. The head tells us whether an attempt succeeded, so we don't want to lose the
 * status because of broken body framing. If the framing is broken, the body is read until the connection closes.
 * Interim responses are skipped, including an unsolicited `100 Continue` (RFC 9110, section 15.2).
 *
 * @param advance called after each interim response
 */
export function createHeadReader(advance: () => void): HeadReader {
  let isInBody = false
  let interimResponses = 0
  /** The pieces of an incomplete head. Limited in size by the caller. */
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
      // Other protocols may never send a line feed, but undici rejects them right away.
      isInBody ||= pieces.length === 0 && !BEGINNINGS.includes(piece[0] ?? 0)
      if (isInBody) return piece
      // A head ends with a line feed. Until we see one, there's no need to parse everything again.
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

/** Returns `true` for interim responses except 101, as undici doesn't support switching protocols. */
function isInterim(head: string): boolean {
  const status = STATUS_LINE.exec(head)?.[2]
  return status?.startsWith('1') === true && status !== '101'
}

/** Returns a head that undici can read, or the original head if no client can read it. */
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
    const [, name, value = ''] = HEADER.exec(line) ?? []
    if (name === undefined) return null
    headers.push([name, value])
  }
  return headers
}

const CLOSE: Header = ['Connection', 'close']

/** Returns the framing headers that apply (RFC 9112, section 6.3). */
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
