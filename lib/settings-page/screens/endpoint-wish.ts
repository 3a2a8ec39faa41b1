import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import { MAX_PER_SECOND_BOUNDS } from '../../webhooks/endpoint-rate.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { textOf, textsOf } from '../form-values.ts'
import type { Problems } from '../views/form.ts'

/** The values of an endpoint's form, sent or freshly opened. */
export interface EndpointWish {
  readonly id: string
  readonly url: string
  readonly description: string
  /** As typed; empty: no limit. */
  readonly maxPerSecond: string
  readonly wants: 'all' | 'some' | null
  readonly types: readonly EventType[]
  /** The headers of the endpoint. The values are never shown. */
  readonly known: readonly { readonly name: string; readonly act: string; readonly value: string }[]
  /** Further headers. */
  readonly added: readonly { readonly name: string; readonly value: string }[]
}

/** The form of an endpoint before any change. */
export function wishOf({
  id,
  url,
  description,
  types,
  headerNames,
  maxPerSecond,
}: WebhookEndpoint): EndpointWish {
  return {
    id,
    url,
    description,
    maxPerSecond: String(maxPerSecond ?? ''),
    wants: types === null ? 'all' : 'some',
    types: types ?? [],
    known: headerNames.map((name) => ({ name, act: 'keep', value: '' })),
    added: [],
  }
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
    url: textOf(form, 'url'),
    description: textOf(form, 'description'),
    maxPerSecond: textOf(form, 'max-per-second').trim(),
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
  const { url, description, maxPerSecond, wants, types, known, added } = wish
  const { min, max } = MAX_PER_SECOND_BOUNDS
  const rate = Number(maxPerSecond)
  const isReplacedByNothing = known.some(({ act, value }) => act === 'replace' && value === '')
  const isIncomplete = added.some(({ name, value }) => name === '' || value === '')
  return {
    ...(!URL.canParse(url) && { url: t`Give a whole URL, as https://example.com/webhooks` }),
    ...([...description].length > 200 && { description: t`Give a description of at most 200 characters` }),
    ...(maxPerSecond !== '' &&
      !(rate >= min && rate <= max) && { 'max-per-second': t`Give a number from ${min} to ${max}, as 0.5` }),
    ...(wants === null && { wants: t`Choose which events the endpoint gets` }),
    ...(wants === 'some' && types.length === 0 && { wants: t`Choose at least one type of event` }),
    ...((isReplacedByNothing || isIncomplete) && { headers: t`Give each header a name and a value` }),
  }
}
