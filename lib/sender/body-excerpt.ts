import { StringDecoder } from 'node:string_decoder'
import { visible } from '../base/visible-text.ts'

/** How much of a response body is read and kept, in bytes. */
export const EXCERPT_MAX_BYTES = 4096

/** Control characters except tabs and line endings. PostgreSQL can't store NUL, and terminals interpret others. */
const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/**
 * Decodes the start of a response body as UTF-8 so that any store can keep it. Invalid bytes, and nothing else, are
 * replaced with U+FFFD. Control characters and any U+FFFD that was in the body are escaped (`\u{1b}`, `\u{fffd}`). A
 * character that is cut in half by the limit is dropped.
 *
 * @param contentEncoding the response's Content-Encoding. For compressed bodies we return an empty string, since they
 * could be a decompression bomb and part of one isn't readable anyway
 */
export function readExcerpt(chunks: readonly Uint8Array[], contentEncoding: string | undefined): string {
  if (chunks.length === 0 || !isPlain(contentEncoding)) return ''
  const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_MAX_BYTES)
  const decoder = new StringDecoder('utf8')
  // `write` holds back an incomplete last character. It's only invalid if there can't be any more bytes.
  const text = decoder.write(bytes) + (bytes.length < EXCERPT_MAX_BYTES ? decoder.end() : '')
  const isReplaced =
    text.includes('\uFFFD') && !Buffer.from(text).equals(bytes.subarray(0, Buffer.byteLength(text)))
  return (isReplaced ? text : text.replaceAll('\uFFFD', '\\u{fffd}')).replace(CONTROL_CHARACTER, visible)
}

function isPlain(contentEncoding = 'identity'): boolean {
  return ['identity', ''].includes(contentEncoding.trim().toLowerCase())
}
