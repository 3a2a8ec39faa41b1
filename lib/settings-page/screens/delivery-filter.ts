import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import type { DeliveryState } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { type Html, html } from '../html.ts'
import { quietLink } from '../views/copyable.ts'
import { input, select } from '../views/form.ts'
import { DELIVERY_STATES, stateText } from './delivery-words.ts'
import { nameOf } from './endpoint-words.ts'

/** The filter of the delivery log in the texts of the URL; an empty text selects everything. */
export interface Filter {
  readonly state: DeliveryState | ''
  readonly type: EventType | ''
  readonly endpoint: string
  readonly event: string
  readonly period: string
  readonly from: string
  readonly to: string
}

const HOUR_MS = 60 * 60 * 1000
const PERIODS: Readonly<Record<string, number>> = {
  '1h': HOUR_MS,
  '24h': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
}

/** Reads the filter from a URL or a form; an invalid value counts as absent. */
export function readFilter(values: { get(name: string): string | null }): Filter {
  const text = (name: string): string => values.get(name)?.trim() ?? ''
  return {
    state: DELIVERY_STATES.find((state) => state === text('state')) ?? '',
    type: EVENT_TYPES.find((type) => type === text('type')) ?? '',
    endpoint: idOf(text('endpoint')),
    event: idOf(text('event')),
    period: text('period') === 'custom' || Object.hasOwn(PERIODS, text('period')) ? text('period') : '',
    from: momentOf(text('from')) === null ? '' : text('from'),
    to: momentOf(text('to')) === null ? '' : text('to'),
  }
}

/** Returns the filter in the form that `deliveries.list` takes. */
export function toQuery({ state, type, endpoint, event, period, from, to }: Filter, now: number) {
  const ms = PERIODS[period]
  const since = ms === undefined ? (period === 'custom' ? momentOf(from) : null) : new Date(now - ms)
  const until = period === 'custom' ? momentOf(to) : null
  return {
    ...(state !== '' && { states: [state] }),
    ...(event !== '' && { eventId: event }),
    ...toRecovery({ type, endpoint }),
    ...(since !== null && { since }),
    ...(until !== null && { until }),
  }
}

/** Returns the part of the filter that `deliveries.recover` takes beside the period. */
export function toRecovery({ type, endpoint }: Pick<Filter, 'type' | 'endpoint'>) {
  return { ...(type !== '' && { type }), ...(endpoint !== '' && { endpointId: endpoint }) }
}

/** True when the filter has at least one value. */
export function isFiltered(filter: Filter): boolean {
  return Object.values(filter).some((value) => value !== '')
}

/** The form of the filter. The form sends a GET, so that every view has a URL. */
export function filterForm(
  { t, link }: Context,
  filter: Filter,
  endpoints: readonly WebhookEndpoint[],
): Html {
  const all = { value: '', text: t`All` }
  return html`<form class="ba-filters" method="get" action="${link('/deliveries')}" role="search" aria-label="${t`Filter`}">
${select({ name: 'state', label: t`State` }, [all, ...DELIVERY_STATES.map((state) => ({ value: state, text: stateText(t, state) }))], filter.state)}
${select({ name: 'type', label: t`Type` }, [all, ...EVENT_TYPES.map((type) => ({ value: type, text: type }))], filter.type)}
${select({ name: 'endpoint', label: t`Endpoint` }, [all, ...endpoints.map((endpoint) => ({ value: endpoint.id, text: nameOf(endpoint).slice(0, 60) }))], filter.endpoint)}
${select(
  { name: 'period', label: t`Time` },
  [
    all,
    { value: '1h', text: t`Last hour` },
    { value: '24h', text: t`Last 24 hours` },
    { value: '7d', text: t`Last 7 days` },
    { value: 'custom', text: t`From and to (UTC)` },
  ],
  filter.period,
)}
${filter.period === 'custom' && input({ name: 'from', label: t`From` }, { type: 'datetime-local', value: filter.from })}
${filter.period === 'custom' && input({ name: 'to', label: t`To` }, { type: 'datetime-local', value: filter.to })}
${input({ name: 'event', label: t`Event id` }, { value: filter.event, placeholder: 'evt_…', spellcheck: 'false', size: 14 })}
<button class="ba-button">${t`Apply`}</button>
${isFiltered(filter) && quietLink(link('/deliveries'), t`Clear filters`)}
</form>`
}

function idOf(text: string): string {
  return /^\w{1,64}$/.test(text) ? text : ''
}

/** The value of an input of type datetime-local, read as UTC. */
function momentOf(text: string): Date | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return null
  const time = Date.parse(`${text}Z`)
  return Number.isNaN(time) || time < 0 ? null : new Date(time)
}
