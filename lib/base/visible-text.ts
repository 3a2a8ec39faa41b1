/**
 * Characters that are not seen, or that change how others are seen: controls, line and paragraph separators, marks of direction,
 * characters without a width. Variation selectors only choose the look of a character that is seen.
 */
const UNSEEN = /(?![\uFE00-\uFE0F])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Joiners, which scripts of Asia and emoji need between their characters. */
const JOINED = /^[^\0-\x7f][\u200C\u200D][^\0-\x7f]$/

/**
 * Replaces invisible characters, so no string looks like another one and no terminal obeys it. A joiner between two characters beyond
 * ASCII stays.
 */
export function replaceUnseen(text: string, describe: (character: string) => string): string {
  return text.replaceAll(UNSEEN, (character: string, offset: number) =>
    JOINED.test(text.slice(offset - 1, offset + 2)) ? character : describe(character),
  )
}

/** Spells out the characters that are not seen: `\u{1b}`. */
export function visible(text: string): string {
  return replaceUnseen(text, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
