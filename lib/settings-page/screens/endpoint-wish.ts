import * as v from 'valibot'
import { eventTypes } from '../../resources/own-events.ts'
import { CHOICES, type EndpointChoices } from '../../webhooks/endpoint-choices.ts'
import { MAX_PER_SECOND_BOUNDS } from '../../webhooks/endpoint-rate.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { textOf, textsOf } from '../form-values.ts'
import type { Attributes } from '../html.ts'
import type { Texts } from '../texts.ts'
import type { Problems } from '../views/form.ts'
import { resourceOf } from './endpoint-words.ts'

/** A choice that the form shows as an input of a single line. */
interface TextField {
  /** The choice, and the name in the form. */
  readonly choice: keyof EndpointChoices
  label(t: Texts): string
  hint(t: Texts): string
  /** The name among the facts of an endpoint, which show a text that is not empty; absent: the page shows the choice elsewhere. */
  fact?(t: Texts): string
  readonly attributes: Attributes
  /** Reads the choice from a text. Default the text, null for none. */
  read?(text: string): unknown
  /** Says what to give in place of a text whose choice cannot be used. */
  fault(t: Texts): string
}

/** The choices of a single line, in the order of the form. */
export const TEXT_FIELDS: readonly TextField[] = [
  {
    choice: 'url',
    label: (t) => t`URL`,
    hint: (t) => t`Publicly accessible HTTPS URL`,
    attributes: { type: 'url', maxlength: 2048, autocomplete: 'off', required: true },
    read: (text) => (URL.canParse(text) ? new URL(text).href : text),
    fault: (t) => t`Enter a full URL, such as https://example.com/webhooks`,
  },
  {
    choice: 'description',
    label: (t) => t`Description (optional)`,
    hint: (t) => t`e.g. Billing, Staging`,
    attributes: { autocomplete: 'off' },
    read: (text) => text,
    fault: (t) => t`Enter a description of up to 200 characters`,
  },
  {
    choice: 'maxPerSecond',
    label: (t) => t`Rate limit (optional)`,
    fact: (t) => t`Rate limit (deliveries per second)`,
    hint: (t) => t`Maximum deliveries per second, e.g. 5 or 0.5`,
    attributes: { inputmode: 'decimal', autocomplete: 'off' },
    read: (text) => (text === '' ? null : Number(text)),
    fault: (t) =>
      t`Enter a number from ${MAX_PER_SECOND_BOUNDS.min} to ${MAX_PER_SECOND_BOUNDS.max}, such as 0.5`,
  },
]

/** The text of a choice in its input. */
export function choiceText(endpoint: Partial<EndpointChoices>, choice: keyof EndpointChoices): string {
  return String(endpoint[choice] ?? '')
}

/** The choices among the facts of an endpoint, with their names. */
export function factsOf(t: Texts, endpoint: EndpointChoices): readonly (readonly [string, string])[] {
  const facts = TEXT_FIELDS.map(
    ({ fact, choice }) => [fact?.(t) ?? '', choiceText(endpoint, choice)] as const,
  )
  const signature = [t`Standard Webhooks headers`, endpoint.standardWebhooks ? t`On` : ''] as const
  return [...facts, signature].filter(([name, text]) => name !== '' && text !== '')
}

/** The values of an endpoint's form, sent or freshly opened. */
export interface EndpointWish {
  readonly id: string
  /** The texts of {@link TEXT_FIELDS}, by choice. */
  readonly texts: Readonly<Record<string, string>>
  /** True: attempts also carry the headers of Standard Webhooks. */
  readonly standardWebhooks: boolean
  readonly wants: 'all' | 'some' | null
  readonly types: readonly string[]
  /** The headers of the endpoint. The values are never shown. */
  readonly known: readonly { readonly name: string; readonly act: string; readonly value: string }[]
  /** Further headers. */
  readonly added: readonly { readonly name: string; readonly value: string }[]
}

/** The form of an endpoint before any change. */
export function wishOf({ id, headerNames, ...endpoint }: WebhookEndpoint): EndpointWish {
  const { types, standardWebhooks } = endpoint
  return {
    id,
    standardWebhooks,
    texts: textsBy(({ choice }) => choiceText(endpoint, choice)),
    wants: types === null ? 'all' : 'some',
    types: types ?? [],
    known: headerNames.map((name) => ({ name, act: 'keep', value: '' })),
    added: [],
  }
}

function textsBy(read: (field: TextField) => string): Readonly<Record<string, string>> {
  return Object.fromEntries(TEXT_FIELDS.map((field) => [field.choice, read(field)]))
}

/** The form of a new endpoint. */
export function emptyWish(id: string): EndpointWish {
  return { id, texts: {}, standardWebhooks: false, wants: 'all', types: [], known: [], added: [] }
}

/** The choices of a form without faults. */
export function choicesOf({
  texts,
  standardWebhooks,
  wants,
  types,
}: EndpointWish): Partial<EndpointChoices> & { readonly url: string } {
  const choices = Object.fromEntries(TEXT_FIELDS.map((field) => [field.choice, chosen(field, texts)]))
  return { url: '', ...choices, standardWebhooks, types: wants === 'all' ? null : types }
}

function chosen({ choice, read }: TextField, texts: EndpointWish['texts']): unknown {
  const { [choice]: text = '' } = texts
  return read ? read(text) : text || null
}

/** Sorts event types as the service has them; types that only the endpoint has come last. */
export function inOrder({ service }: Context['settings'], types: readonly string[]): readonly string[] {
  const known = eventTypes(service)
  return [...known.filter((type) => types.includes(type)), ...types.filter((type) => !known.includes(type))]
}

/** Reads a sent form. */
export function readWish({ form, settings }: Context): EndpointWish {
  const groups = textsOf(form, 'group')
  const inGroups = eventTypes(settings.service).filter((type) => groups.includes(resourceOf(type)))
  const chosen = [...new Set([...textsOf(form, 'type'), ...inGroups])]
  const wants = textOf(form, 'wants')
  const [acts, knownValues, values] = [
    textsOf(form, 'known-act'),
    textsOf(form, 'known-value'),
    textsOf(form, 'header-value'),
  ]
  return {
    id: textOf(form, 'id'),
    texts: textsBy(({ choice }) => textOf(form, choice)),
    standardWebhooks: textOf(form, 'standardWebhooks') === 'yes',
    wants: wants === 'all' || wants === 'some' ? wants : null,
    types: inOrder(settings, chosen),
    known: textsOf(form, 'known').map((name, index) => ({
      name,
      act: acts[index] ?? 'keep',
      value: knownValues[index]?.trim() ?? '',
    })),
    added: textsOf(form, 'header-name')
      .map((name, index) => ({ name: name.trim(), value: values[index]?.trim() ?? '' }))
      .filter(({ name, value }) => name !== '' || value !== ''),
  }
}

/** A sent form with the headers that the endpoint has now. */
export function rebased(wish: EndpointWish, { id, headerNames }: WebhookEndpoint): EndpointWish {
  const known = headerNames.map(
    (name) => wish.known.find((each) => each.name === name) ?? { name, act: 'keep', value: '' },
  )
  const gone = wish.known.filter(({ name, act }) => act === 'replace' && !headerNames.includes(name))
  return { ...wish, id, known, added: [...gone, ...wish.added] }
}

/** The changes of headers that a form asks for. */
export function patchOf({ known, added }: EndpointWish): Record<string, string | null> {
  return Object.fromEntries([
    ...known.filter(({ act }) => act === 'replace').map(({ name, value }) => [name, value] as const),
    ...known.filter(({ act }) => act === 'remove').map(({ name }) => [name, null] as const),
    ...added.map(({ name, value }) => [name, value] as const),
  ])
}

/** Finds the faults of a form that need neither the store nor a name server. */
export function judgeWish({ t }: Context, wish: EndpointWish): Problems {
  const { texts, wants, types, known, added } = wish
  const faulty = TEXT_FIELDS.filter((field) => !v.is(CHOICES[field.choice].input, chosen(field, texts)))
  const isReplacedByNothing = known.some(({ act, value }) => act === 'replace' && value === '')
  const isIncomplete = added.some(({ name, value }) => name === '' || value === '')
  return {
    ...Object.fromEntries(faulty.map(({ choice, fault }) => [choice, fault(t)])),
    ...(wants === null && { wants: t`Select the events to send` }),
    ...(wants === 'some' && types.length === 0 && { wants: t`Select at least one event` }),
    ...((isReplacedByNothing || isIncomplete) && { headers: t`Enter a name and a value for each header` }),
  }
}
