/**
 * Characters that are invisible or change how others are displayed, like control characters, line separators, direction
 * marks and zero-width characters. Variation selectors are fine because they only affect visible characters.
 */
const UNSEEN = /(?![\uFE00-\uFE0F])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** A joiner between two non-ASCII characters, as used in emoji and several Asian scripts. */
const JOINED = /^[^\0-\x7f][\u200C\u200D][^\0-\x7f]$/

/**
 * Replaces invisible characters, so two different strings never look the same and no string can mess with a terminal.
 * Joiners between two non-ASCII characters are kept.
 */
export function replaceUnseen(text: string, describe: (character: string) => string): string {
  return text.replaceAll(UNSEEN, (character: string, offset: number) =>
    JOINED.test(text.slice(offset - 1, offset + 2)) ? character : describe(character),
  )
}

/** Escapes invisible characters, for example as `\u{1b}`. */
export function visible(text: string): string {
  return replaceUnseen(text, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
