import { replaceUnseen, visible } from '../base/visible-text.ts'

// Formats text for a terminal. Much of this text is untrusted, such as descriptions and subscribers' responses.

/** Escapes invisible characters in JSON. The value stays the same, but a terminal won't interpret them. */
export function visibleJson(json: string): string {
  return replaceUnseen(json, (character) =>
    Array.from({ length: character.length }, (_, unit) => {
      return `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }).join(''),
  )
}

/** Returns the beginning of a subscriber's response, with a note if it couldn't be decoded. */
export function describeExcerpt(excerpt: string): string {
  return excerpt.includes('\uFFFD') ? `(not UTF-8) ${excerpt}` : excerpt
}

/** Like {@link visible}, but keeps line breaks. */
export function visibleLines(text: string): string {
  return text.split(/\r?\n/).map(visible).join('\n')
}

const segmenter = new Intl.Segmenter()
/** Double-width characters (East Asian scripts and emoji). */
const WIDE =
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Emoji_Presentation}/u

/** Returns the number of columns a string takes up. */
export function widthOf(text: string): number {
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** Pads a string with spaces to the given width. */
export function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)))
}

/** Breaks a string at spaces into lines of up to `width` columns. Longer words stay intact so you can copy them. */
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

/** Wraps each paragraph to the given width. Every line break starts a new paragraph. */
export function wrapParagraphs(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((paragraph) => wrap(paragraph, width))
    .join('\n')
}

/**
 * Formats names and explanations in two columns. If the terminal is too narrow, explanations go below the names.
 *
 * @param indent number of spaces before each name
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
/** Explanations narrower than this are hard to read. */
const EXPLANATION_MIN = 30
