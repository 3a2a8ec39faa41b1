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

/** An endpoint setting that the form shows as a single-line input. */
interface TextField {
  /** The setting, which is also the field's name. */
  readonly choice: keyof EndpointChoices
  label(t: Texts): string
  hint(t: Texts): string
  /** The label on the endpoint page. If absent, that page shows the setting elsewhere. */
  fact?(t: Texts): string
  readonly attributes: Attributes
  /** Parses the input. By default, the value is the text, or `null` if empty. */
  read?(text: string): unknown
  /** The error message for an invalid value. */
  fault(t: Texts): string
}

/** The single-line settings, in the form's order. */
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
    label: (t) => t`Description`,
    hint: (t) => t`e.g. Billing, Staging`,
    attributes: { autocomplete: 'off' },
    read: (text) => text,
    fault: (t) => t`Enter a description of up to 200 characters`,
  },
  {
    choice: 'maxPerSecond',
    label: (t) => t`Rate limit`,
    fact: (t) => t`Rate limit (deliveries per second)`,
    hint: (t) => t`Maximum deliveries per second, e.g. 5 or 0.5`,
    attributes: { inputmode: 'decimal', autocomplete: 'off' },
    read: (text) => (text === '' ? null : Number(text)),
    fault: (t) =>
      t`Enter a number from ${MAX_PER_SECOND_BOUNDS.min} to ${MAX_PER_SECOND_BOUNDS.max}, such as 0.5`,
  },
]

/** Formats a setting for its input. */
export function choiceText(endpoint: Partial<EndpointChoices>, choice: keyof EndpointChoices): string {
  return String(endpoint[choice] ?? '')
}

/** Returns the form's label of a changed setting; the setting's name if it is unknown. */
export function choiceLabel(t: Texts, choice: string): string {
  const field = TEXT_FIELDS.find((each) => each.choice === choice)
  const others = new Map([
    ['types', t`Events to send`],
    ['headers', t`Custom headers`],
    ['standardWebhooks', t`Standard Webhooks headers`],
  ])
  return field?.label(t) ?? others.get(choice) ?? choice
}

/** Returns the endpoint page's labels and values of these settings. */
export function factsOf(t: Texts, endpoint: EndpointChoices): readonly (readonly [string, string])[] {
  const facts = TEXT_FIELDS.map(
    ({ fact, choice }) => [fact?.(t) ?? '', choiceText(endpoint, choice)] as const,
  )
  const signature = [t`Standard Webhooks headers`, endpoint.standardWebhooks ? t`On` : ''] as const
  return [...facts, signature].filter(([name, text]) => name !== '' && text !== '')
}

/** The values of an endpoint form, submitted or initial. */
export interface EndpointWish {
  readonly id: string
  /** The texts of {@link TEXT_FIELDS} by setting. */
  readonly texts: Readonly<Record<string, string>>
  /** If `true`, requests also have Standard Webhooks headers. */
  readonly standardWebhooks: boolean
  readonly wants: 'all' | 'some' | null
  readonly types: readonly string[]
  /** The endpoint's existing headers, whose values are never shown. */
  readonly known: readonly { readonly name: string; readonly act: string; readonly value: string }[]
  /** New headers. */
  readonly added: readonly { readonly name: string; readonly value: string }[]
}

/** Returns the form values of an existing endpoint. */
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

/** The form values of a new endpoint. */
export function emptyWish(id: string): EndpointWish {
  return { id, texts: {}, standardWebhooks: false, wants: 'all', types: [], known: [], added: [] }
}

/** Returns the settings of a valid form. */
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

/** Sorts event types in the service's order. Types that the service no longer has come last. */
export function inOrder({ service }: Context['settings'], types: readonly string[]): readonly string[] {
  const known = eventTypes(service)
  return [...known.filter((type) => types.includes(type)), ...types.filter((type) => !known.includes(type))]
}

/** Parses a submitted form. */
export function readWish({ form, settings }: Context): EndpointWish {
  const full = textsOf(form, 'full-group')
  const groups = textsOf(form, 'group').filter((group) => !full.includes(group))
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

/** Returns a submitted form with the endpoint's current headers. */
export function rebased(wish: EndpointWish, { id, headerNames }: WebhookEndpoint): EndpointWish {
  const known = headerNames.map(
    (name) => wish.known.find((each) => each.name === name) ?? { name, act: 'keep', value: '' },
  )
  const gone = wish.known.filter(({ name, act }) => act === 'replace' && !headerNames.includes(name))
  return { ...wish, id, known, added: [...gone, ...wish.added] }
}

/** Returns the header changes that a form requests. */
export function patchOf({ known, added }: EndpointWish): Record<string, string | null> {
  return Object.fromEntries([
    ...known.filter(({ act }) => act === 'replace').map(({ name, value }) => [name, value] as const),
    ...known.filter(({ act }) => act === 'remove').map(({ name }) => [name, null] as const),
    ...added.map(({ name, value }) => [name, value] as const),
  ])
}

/**
 * Validates everything in a form that needs neither the store nor DNS.
 *
 * @param before the endpoint's event types; `null` for all, as in a new endpoint
 */
export function judgeWish(
  { t, settings }: Context,
  wish: EndpointWish,
  before: readonly string[] | null,
): Problems {
  const { texts, wants, types, known, added } = wish
  // Types that were ticked before are no contradiction: without the script, they stay ticked if "All events" is selected.
  const isTicked = types.length > 0 && types.join() !== inOrder(settings, before ?? []).join()
  const faulty = TEXT_FIELDS.filter((field) => !v.is(CHOICES[field.choice].input, chosen(field, texts)))
  const isReplacedByNothing = known.some(({ act, value }) => act === 'replace' && value === '')
  const isIncomplete = added.some(({ name, value }) => name === '' || value === '')
  return {
    ...Object.fromEntries(faulty.map(({ choice, fault }) => [choice, fault(t)])),
    ...(wants === null && { wants: t`Select the events to send` }),
    ...(wants === 'some' && types.length === 0 && { wants: t`Select at least one event` }),
    ...(wants === 'all' &&
      isTicked && {
        wants: t`You selected events but left “All events” on. Choose “Selected events”, or clear the events.`,
      }),
    ...((isReplacedByNothing || isIncomplete) && { headers: t`Enter a name and a value for each header` }),
  }
}
