import { replaceUnseen, visible } from '../base/visible-text.ts'

// Text for a terminal. Strangers wrote much of it, for example descriptions and subscribers' responses.

/** JSON with every character that is not seen in the escaped form: the same value, which no terminal obeys. */
export function visibleJson(json: string): string {
  return replaceUnseen(json, (character) =>
    Array.from({ length: character.length }, (_, unit) => {
      return `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }).join(''),
  )
}

/** The beginning of a subscriber's response, marked as binary if it could not be decoded. */
export function describeExcerpt(excerpt: string): string {
  return excerpt.includes('\uFFFD') ? `(not UTF-8) ${excerpt}` : excerpt
}

/** As {@link visible}, but keeps line breaks. */
export function visibleLines(text: string): string {
  return text.split(/\r?\n/).map(visible).join('\n')
}

const segmenter = new Intl.Segmenter()
/** Characters that take two columns: the scripts of East Asia, and emoji. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Emoji_Presentation}/u

/** The number of columns that a string takes. */
export function widthOf(text: string): number {
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** The text, followed by spaces up to a width. */
export function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)))
}

/** Lines of at most `width` columns, broken at spaces. A longer word stays whole and can still be copied. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    const longer = last === undefined ? word : `${last} ${word}`
    if (last === undefined || widthOf(longer) > width) lines.push(word)
    else lines[lines.length - 1] = longer
  }
  return lines
}

/** Paragraphs, each wrapped to a width; every line break of the text ends a paragraph. */
export function wrapParagraphs(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((paragraph) => wrap(paragraph, width))
    .join('\n')
}

/**
 * Names with an explanation each, as two columns; where the terminal is too narrow for two, the explanation stands below
 * its name.
 *
 * @param indent spaces in front of each name
 */
export function formatPairs(
  pairs: readonly (readonly [name: string, explanation: string])[],
  width: number,
  indent = 0,
): string {
  const nameWidth = Math.max(0, ...pairs.map(([name]) => widthOf(name)))
  const beside = indent + nameWidth + GAP
  const isNarrow = width - beside < EXPLANATION_MIN
  const lines = pairs.flatMap(([name, explanation]) => {
    const left = ' '.repeat(indent)
    const hanging = isNarrow ? indent + GAP * 2 : beside
    const [first = '', ...rest] = wrap(explanation, width - hanging)
    const below = (line: string): string => ' '.repeat(hanging) + line
    if (isNarrow) return [left + name, ...[first, ...rest].map(below)]
    return [`${left}${pad(name, nameWidth + GAP)}${first}`.trimEnd(), ...rest.map(below)]
  })
  return lines.map((line) => `${line}\n`).join('')
}

const GAP = 2
/** An explanation that is narrower is hard to read. */
const EXPLANATION_MIN = 30
