import { StringDecoder } from 'node:string_decoder'
import { visible } from '../base/visible-text.ts'

/** Maximum size of the response body that is read and kept, in bytes. */
export const EXCERPT_MAX_BYTES = 4096

/** Control characters except tab and line ends: PostgreSQL takes no NUL, and a terminal obeys several other control characters. */
const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/**
 * Returns the beginning of a response body as a string that any store can keep: read as UTF-8, with U+FFFD for invalid bytes and for
 * nothing else. Control characters are spelled out, and so is a U+FFFD of valid text: `\u{1b}`, `\u{fffd}`. A character that the limit
 * cuts in two is left out.
 *
 * @param contentEncoding the response's Content-Encoding. A compressed body gives an empty excerpt: such a body may be a
 *   bomb, and a part of a compressed body says nothing
 */
export function readExcerpt(chunks: readonly Uint8Array[], contentEncoding: string | undefined): string {
  if (chunks.length === 0 || !isPlain(contentEncoding)) return ''
  const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_MAX_BYTES)
  const decoder = new StringDecoder('utf8')
  // `write` holds back an incomplete last character, which is invalid unless more bytes may follow.
  const text = decoder.write(bytes) + (bytes.length < EXCERPT_MAX_BYTES ? decoder.end() : '')
  const isReplaced =
    text.includes('\uFFFD') && !Buffer.from(text).equals(bytes.subarray(0, Buffer.byteLength(text)))
  return (isReplaced ? text : text.replaceAll('\uFFFD', '\\u{fffd}')).replace(CONTROL_CHARACTER, visible)
}

function isPlain(contentEncoding = 'identity'): boolean {
  return ['identity', ''].includes(contentEncoding.trim().toLowerCase())
}
