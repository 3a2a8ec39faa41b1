import { StringDecoder } from 'node:string_decoder'

/** How much of an answer's body is read and kept, in bytes. */
export const EXCERPT_MAX_BYTES = 4096

/** All but what text is made of: PostgreSQL takes no NUL, and a terminal obeys some of the others. */
const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/**
 * The beginning of an answer's body as text that any store can keep: read as UTF-8, and U+FFFD for what is not. A
 * character that the end cuts through is left out.
 *
 * @param contentEncoding a body that is compressed is not read: it may be a bomb, and part of it says nothing. Empty then
 */
export function readExcerpt(chunks: readonly Uint8Array[], contentEncoding: string | undefined): string {
  if (chunks.length === 0 || !isPlain(contentEncoding)) return ''
  const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_MAX_BYTES)
  // It holds the beginning of a character back for the rest of it.
  return new StringDecoder('utf8').write(bytes).replace(CONTROL_CHARACTER, '\uFFFD')
}

function isPlain(contentEncoding = 'identity'): boolean {
  return ['identity', ''].includes(contentEncoding.trim().toLowerCase())
}
