import { replaceUnseen } from '../base/visible-text.ts'

const MARKUP: unique symbol = Symbol('markup')

/** Markup made by {@link html}. The key is a symbol, so that no stored JSON can pass for markup. */
export interface Html {
  readonly [MARKUP]: string
}

/** A value in a template: markup stays as it is, text is escaped, `null`, `undefined` and `false` give nothing. */
export type Content = Html | string | number | false | null | undefined | readonly Content[]

/**
 * Builds markup. Every value that is not markup is escaped, for elements and for quoted attributes alike. Control and
 * direction characters of the value are made visible, because foreign text could otherwise look like another text.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  let markup = strings[0] ?? ''
  values.forEach((value, index) => {
    markup += toMarkup(value) + (strings[index + 1] ?? '')
  })
  return { [MARKUP]: markup }
}

/** Gives the text of markup, with everything else escaped. */
export function toMarkup(content: Content): string {
  if (content === null || content === undefined || content === false) return ''
  if (typeof content === 'string') return escapeText(replaceUnseen(content, name))
  if (typeof content === 'number') return String(content)
  return MARKUP in content ? content[MARKUP] : content.map(toMarkup).join('')
}

/** Text with every character as it is, for values that are copied or sent back. */
export function exact(text: string): Html {
  return { [MARKUP]: escapeText(text) }
}

/** Values of attributes: `true` gives the name alone, `false`, `null` and `undefined` give nothing. */
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>

/** Builds attributes, each with a space in front. The names are ours, never data. */
export function attributes(all: Attributes): Html {
  let markup = ''
  for (const [name, value] of Object.entries(all)) {
    if (value === false || value === null || value === undefined) continue
    markup += value === true ? ` ${name}` : ` ${name}="${escapeText(String(value))}"`
  }
  return { [MARKUP]: markup }
}

function name(character: string): string {
  if (character === '\n' || character === '\t') return character
  return `\u27e8${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeText(text: string): string {
  return text.replace(/[&<>"']|\0/g, (character) => ENTITIES[character] ?? '\uFFFD')
}
