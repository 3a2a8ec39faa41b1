import { isPlain, PLAIN, printValue, rejectUnknown } from '../base/options.ts'

/** Plural forms by the language's plural category. `{0}` is the count. */
export type PluralForms = Readonly<Partial<Record<Intl.LDMLPluralRule, string>> & { readonly other: string }>

/** Translations by English text: `{ 'Revoke {0}': 'Révoquer {0}' }`. Missing texts stay in English, unknown ones are ignored. */
export type Translations = Readonly<Record<string, string | PluralForms>>

/** The names of {@link PluralForms}. */
const FORMS = { zero: true, one: true, two: true, few: true, many: true, other: true }

/** Reads the `texts` option. @throws `TypeError` naming the first invalid language, text or plural form */
export function readTranslations(
  all: Readonly<Record<string, Translations>> = {},
): Readonly<Record<string, Translations>> {
  check(isPlain(all), 'texts', PLAIN, all)
  for (const [language, translations] of Object.entries(all)) {
    // A tag that is written differently would never be found.
    check(isLanguageTag(language), 'texts', "by language tag, such as 'fr' or 'fr-CA'", language)
    check(isPlain(translations), `texts.${language}`, PLAIN, translations)
    for (const [source, target] of Object.entries(translations)) {
      const name = `texts.${language}['${source}']`
      if (typeof target === 'string') continue
      check(isPlain(target), name, 'a string or plural forms', target)
      rejectUnknown(target, FORMS, `${name}.`)
      for (const [form, text] of [['other', target.other] as const, ...Object.entries(target)])
        check(typeof text === 'string', `${name}.${form}`, 'a string', text)
    }
  }
  return all
}

function check(isRight: boolean, name: string, requirement: string, value: unknown): void {
  if (!isRight)
    throw new TypeError(`Option '${name}' must be ${requirement}: current value is ${printValue(value)}`)
}

function isLanguageTag(tag: string): boolean {
  try {
    return /^[a-z]{2,3}(-|$)/.test(tag) && Intl.getCanonicalLocales(tag)[0] === tag
  } catch {
    return false
  }
}

/** Translates the page's texts into a language. */
export interface Texts {
  /** Translates a template: `` t`Revoke ${name}` `` looks for `Revoke {0}`. */
  (strings: TemplateStringsArray, ...values: readonly (string | number)[]): string
  /** Translates a resource name, for example `Clients`. */
  word(english: string): string
  /** Translates a text with a count. The translation's key is the English plural: `{0} deliveries`. */
  count(count: number, one: string, other: string): string
  /** Returns the plural forms of a text, for a count in the browser. */
  forms(one: string, other: string): PluralForms
}

/**
 * Creates the translation functions of a language.
 *
 * @param locale a BCP 47 tag. `fr-CA` uses the translations of `fr-CA`, or those of `fr` if there are none
 */
export function createTexts(locale: string, all: Readonly<Record<string, Translations>>): Texts {
  const language = locale.split('-', 1)[0] ?? locale
  const translations = all[locale] ?? all[language] ?? {}
  const rules = new Intl.PluralRules(locale)
  const numbers = new Intl.NumberFormat(locale)
  const show = (value: string | number): string => (typeof value === 'number' ? numbers.format(value) : value)

  function translate(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
    const source = strings.reduce((text, next, index) => `${text}{${index - 1}}${next}`)
    return fill(word(source), values.map(show))
  }

  function word(source: string): string {
    const target = own(translations, source)
    return typeof target === 'string' ? target : source
  }

  function count(number: number, one: string, other: string): string {
    const all = forms(one, other)
    return fill(all[rules.select(number)] ?? all.other, [show(number)])
  }

  function forms(one: string, other: string): PluralForms {
    const target = own(translations, other)
    return typeof target === 'string' ? { other: target } : (target ?? { one, other })
  }

  return Object.assign(translate, { word, count, forms })
}

function own(translations: Translations, source: string): string | PluralForms | undefined {
  return Object.hasOwn(translations, source) ? translations[source] : undefined
}

function fill(text: string, values: readonly string[]): string {
  return text.replace(/\{(\d)\}/g, (whole, index) => values[Number(index)] ?? whole)
}
