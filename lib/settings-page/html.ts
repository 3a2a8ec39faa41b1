import { replaceUnseen } from '../base/visible-text.ts'

const MARKUP: unique symbol = Symbol('markup')

/** Markup created by {@link html}. The key is a symbol, so stored JSON can never be mistaken for markup. */
export interface Html {
  readonly [MARKUP]: string
}

/** A template value. Markup is inserted as is, text is escaped, and `null`, `undefined` and `false` are skipped. */
export type Content = Html | string | number | false | null | undefined | readonly Content[]

/**
 * Template tag that creates markup. Values that aren't markup are escaped for use in elements and quoted attributes. Control and
 * direction characters are made visible because they could otherwise make a text look like another one.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  let markup = strings[0] ?? ''
  values.forEach((value, index) => {
    markup += toMarkup(value) + (strings[index + 1] ?? '')
  })
  return { [MARKUP]: markup }
}

/** Converts content to a markup string, escaping everything that isn't markup. */
export function toMarkup(content: Content): string {
  if (content === null || content === undefined || content === false) return ''
  if (typeof content === 'string') return escapeText(replaceUnseen(content, name))
  if (typeof content === 'number') return String(content)
  return MARKUP in content ? content[MARKUP] : content.map(toMarkup).join('')
}

/** Escapes text without replacing invisible characters, for values that are copied or submitted again. */
export function exact(text: string): Html {
  return { [MARKUP]: escapeText(text) }
}

/** Attribute values: `true` adds the name only; `false`, `null` and `undefined` are skipped. */
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>

/** Renders attributes, each preceded by a space. Names must come from our code and never from data. */
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
