// Text for a terminal. Much of what is shown was written by strangers: a description, the answer of a subscriber.

/** What moves the cursor, changes colours or turns the reading direction round. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** The text without anything that a terminal would carry out: such characters are written as `\u{1b}`. */
export function visible(text: string): string {
  return text.replaceAll(CONTROL, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}

/** As {@link visible}, with the line breaks left in. */
export function visibleLines(text: string): string {
  return text.split(/\r?\n/).map(visible).join('\n')
}

const segmenter = new Intl.Segmenter()
/** What takes two columns: the scripts of East Asia, and emoji. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Emoji_Presentation}/u

/** How many columns a text takes. */
export function widthOf(text: string): number {
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** The beginning of a text that fits into so many columns, with an ellipsis when it is not all of it. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let kept = ''
  for (const { segment } of segmenter.segment(text)) {
    if (widthOf(kept + segment) >= width) break
    kept += segment
  }
  return `${kept}…`
}
