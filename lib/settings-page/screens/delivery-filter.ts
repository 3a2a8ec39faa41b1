import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import type { DeliveryState } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { isFiltered, readId } from '../form-values.ts'
import { type Html, html } from '../html.ts'
import { filterForm, input, select } from '../views/form.ts'
import { DELIVERY_STATES, stateText } from './delivery-words.ts'
import { nameOf } from './endpoint-words.ts'
import { momentsOf, type Period, periodFields, readPeriod } from './period.ts'

/** The filter of the delivery log as the URL has it; empty texts select all. */
export interface DeliveryFilter extends Period {
  readonly state: DeliveryState | ''
  readonly type: EventType | ''
  readonly endpoint: string
  readonly event: string
}

/** Reads the filter of a URL or of a form; values that cannot be used count as absent. */
export function readFilter(values: { get(name: string): string | null }): DeliveryFilter {
  const text = (name: string): string => values.get(name)?.trim() ?? ''
  return {
    state: DELIVERY_STATES.find((state) => state === text('state')) ?? '',
    type: EVENT_TYPES.find((type) => type === text('type')) ?? '',
    endpoint: readId(text('endpoint')),
    event: readId(text('event')),
    ...readPeriod(text),
  }
}

/** The filter as the settings take it. */
export function toQuery({ state, type, endpoint, event, ...period }: DeliveryFilter, now: number) {
  return {
    ...(state !== '' && { states: [state] }),
    ...(event !== '' && { eventId: event }),
    ...(type !== '' && { type }),
    ...(endpoint !== '' && { endpointId: endpoint }),
    ...momentsOf(period, now),
  }
}

/** The form of the filter. */
export function deliveryFilterForm(
  context: Context,
  filter: DeliveryFilter,
  endpoints: readonly WebhookEndpoint[],
): Html {
  const { t, link } = context
  const all = { value: '', text: t`All` }
  return filterForm(
    t,
    link('/deliveries'),
    isFiltered(filter),
    html`${select({ name: 'state', label: t`State` }, [all, ...DELIVERY_STATES.map((state) => ({ value: state, text: stateText(t, state) }))], filter.state)}
${select({ name: 'type', label: t`Type` }, [all, ...EVENT_TYPES.map((type) => ({ value: type, text: type }))], filter.type)}
${select({ name: 'endpoint', label: t`Endpoint` }, [all, ...endpoints.map((endpoint) => ({ value: endpoint.id, text: nameOf(endpoint).slice(0, 60) }))], filter.endpoint)}
${periodFields(context, filter)}
${input({ name: 'event', label: t`Event id` }, { value: filter.event, placeholder: 'evt_…', spellcheck: 'false', size: 14 })}`,
  )
}
