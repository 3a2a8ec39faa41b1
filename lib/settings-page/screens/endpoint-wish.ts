import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import { MAX_PER_SECOND_BOUNDS } from '../../webhooks/endpoint-rate.ts'
import type { EndpointChoices, WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { textOf, textsOf } from '../form-values.ts'
import type { Attributes } from '../html.ts'
import type { Texts } from '../texts.ts'
import type { Problems } from '../views/form.ts'

/** A choice that the form shows as an input of a single line. */
interface TextField {
  /** The name in the form. */
  readonly name: string
  label(t: Texts): string
  hint(t: Texts): string
  /** The name among the facts of an endpoint, which show a text that is not empty; absent: the page shows the choice elsewhere. */
  fact?(t: Texts): string
  readonly attributes: Attributes
  textOf(endpoint: EndpointChoices): string
  toChoice(text: string): Partial<EndpointChoices>
  /** Tells the fault of a text; null without a fault. */
  judge(t: Texts, text: string): string | null
}

/** The choices of a single line, in the order of the form. */
export const TEXT_FIELDS: readonly TextField[] = [
  {
    name: 'url',
    label: (t) => t`URL`,
    hint: (t) => t`Where events are sent to: https, and reachable from the internet`,
    attributes: { type: 'url', maxlength: 2048, autocomplete: 'off', required: true },
    textOf: ({ url }) => url,
    toChoice: (url) => ({ url: URL.canParse(url) ? new URL(url).href : url }),
    judge: (t, text) => (URL.canParse(text) ? null : t`Give a whole URL, as https://example.com/webhooks`),
  },
  {
    name: 'description',
    label: (t) => t`Description (optional)`,
    hint: (t) => t`For people: “Billing”, “Staging server”`,
    attributes: { autocomplete: 'off' },
    textOf: ({ description }) => description,
    toChoice: (description) => ({ description }),
    judge: (t, text) => ([...text].length > 200 ? t`Give a description of at most 200 characters` : null),
  },
  {
    name: 'max-per-second',
    label: (t) => t`Deliveries a second at most (optional)`,
    fact: (t) => t`Deliveries a second at most`,
    hint: (t) => t`If the receiver has a known limit: “5”, or “0.5”`,
    attributes: { inputmode: 'decimal', autocomplete: 'off' },
    textOf: ({ maxPerSecond }) => String(maxPerSecond ?? ''),
    toChoice: (text) => ({ maxPerSecond: text === '' ? null : Number(text) }),
    judge(t, text) {
      const { min, max } = MAX_PER_SECOND_BOUNDS
      const isUsable = text === '' || (Number(text) >= min && Number(text) <= max)
      return isUsable ? null : t`Give a number from ${min} to ${max}, as 0.5`
    },
  },
]

/** The choices among the facts of an endpoint, with their names. */
export function factsOf(t: Texts, endpoint: EndpointChoices): readonly (readonly [string, string])[] {
  const facts = TEXT_FIELDS.map(({ fact, textOf: show }) => [fact?.(t) ?? '', show(endpoint)] as const)
  return facts.filter(([name, text]) => name !== '' && text !== '')
}

/** The values of an endpoint's form, sent or freshly opened. */
export interface EndpointWish {
  readonly id: string
  /** The texts of {@link TEXT_FIELDS}, by name. */
  readonly texts: Readonly<Record<string, string>>
  readonly wants: 'all' | 'some' | null
  readonly types: readonly EventType[]
  /** The headers of the endpoint. The values are never shown. */
  readonly known: readonly { readonly name: string; readonly act: string; readonly value: string }[]
  /** Further headers. */
  readonly added: readonly { readonly name: string; readonly value: string }[]
}

/** The form of an endpoint before any change. */
export function wishOf({ id, headerNames, ...endpoint }: WebhookEndpoint): EndpointWish {
  const { types } = endpoint
  return {
    id,
    texts: textsBy(({ textOf: show }) => show(endpoint)),
    wants: types === null ? 'all' : 'some',
    types: types ?? [],
    known: headerNames.map((name) => ({ name, act: 'keep', value: '' })),
    added: [],
  }
}

function textsBy(read: (field: TextField) => string): Readonly<Record<string, string>> {
  return Object.fromEntries(TEXT_FIELDS.map((field) => [field.name, read(field)]))
}

/** The form of a new endpoint. */
export function emptyWish(id: string): EndpointWish {
  return { id, texts: {}, wants: null, types: [], known: [], added: [] }
}

/** The choices of a form without faults. */
export function choicesOf({
  texts,
  wants,
  types,
}: EndpointWish): Partial<EndpointChoices> & { readonly url: string } {
  const choices = TEXT_FIELDS.map(({ name, toChoice }) => toChoice(texts[name] ?? ''))
  return Object.assign({ url: '' }, ...choices, { types: wants === 'all' ? null : types })
}

/** Reads a sent form. */
export function readWish({ form }: Context): EndpointWish {
  const chosen = textsOf(form, 'type')
  const wants = textOf(form, 'wants')
  const [acts, knownValues, values] = [
    textsOf(form, 'known-act'),
    textsOf(form, 'known-value'),
    textsOf(form, 'header-value'),
  ]
  return {
    id: textOf(form, 'id'),
    texts: textsBy(({ name }) => textOf(form, name)),
    wants: wants === 'all' || wants === 'some' ? wants : null,
    types: EVENT_TYPES.filter((type) => chosen.includes(type)),
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
  const faults = TEXT_FIELDS.map(({ name, judge }) => [name, judge(t, texts[name] ?? '')] as const)
  const isReplacedByNothing = known.some(({ act, value }) => act === 'replace' && value === '')
  const isIncomplete = added.some(({ name, value }) => name === '' || value === '')
  return {
    ...Object.fromEntries(faults.flatMap(([name, fault]) => (fault === null ? [] : [[name, fault]]))),
    ...(wants === null && { wants: t`Choose which events the endpoint gets` }),
    ...(wants === 'some' && types.length === 0 && { wants: t`Choose at least one type of event` }),
    ...((isReplacedByNothing || isIncomplete) && { headers: t`Give each header a name and a value` }),
  }
}
