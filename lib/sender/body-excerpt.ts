import { StringDecoder } from 'node:string_decoder'
import { visible } from '../base/visible-text.ts'

/** How many bytes of a response body to read and keep. */
export const EXCERPT_MAX_BYTES = 4096

/** Control characters except tabs and line endings. PostgreSQL can't store NUL, and terminals interpret the others. */
const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/**
 * Decodes the beginning of a response body as UTF-8, in a form that any store can keep. Only invalid bytes are replaced
 * with U+FFFD. Control characters and any U+FFFD that was already in the body are escaped (`\u{1b}`, `\u{fffd}`). An
 * incomplete last character is dropped if the body was truncated.
 *
 * @param contentEncoding the response's Content-Encoding. Returns an empty string for compressed bodies, because they
 * could be a decompression bomb and a partial one can't be read anyway
 */
export function readExcerpt(chunks: readonly Uint8Array[], contentEncoding: string | undefined): string {
  if (chunks.length === 0 || !isPlain(contentEncoding)) return ''
  const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_MAX_BYTES)
  const decoder = new StringDecoder('utf8')
  // `write` holds back an incomplete last character, which is only invalid if the body ended there.
  const text = decoder.write(bytes) + (bytes.length < EXCERPT_MAX_BYTES ? decoder.end() : '')
  const isReplaced =
    text.includes('\uFFFD') && !Buffer.from(text).equals(bytes.subarray(0, Buffer.byteLength(text)))
  return (isReplaced ? text : text.replaceAll('\uFFFD', '\\u{fffd}')).replace(CONTROL_CHARACTER, visible)
}

function isPlain(contentEncoding = 'identity'): boolean {
  return ['identity', ''].includes(contentEncoding.trim().toLowerCase())
}
