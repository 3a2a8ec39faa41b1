import { isIdOf } from '../../base/ids.ts'
import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import type { Delivery, DeliveryState } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { isFiltered, readId } from '../form-values.ts'
import { type Content, type Html, html } from '../html.ts'
import { filterForm, input, select } from '../views/form.ts'
import { buttonLink, pageLinks, questionLink } from '../views/link.ts'
import { empty } from '../views/notice.ts'
import { table } from '../views/table.ts'
import { answerText, DELIVERY_STATES, deliveryState, stateText } from './delivery-words.ts'
import { nameFor } from './endpoint-words.ts'
import { momentsOf, type Period, periodFields, readPeriod } from './period.ts'

/** `/deliveries`: the delivery log of all endpoints. Every view of the log has a URL. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query, now } = context
  const filter = readDeliverySearch(query)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('dlv', cursor) ? cursor : null
  const [{ data, next }, endpoints] = await Promise.all([
    settings.deliveries.list(access.organizationId, { ...toQuery(filter, now), before }),
    settings.endpoints.list(access.organizationId),
  ])
  const { state } = filter
  const canRecover =
    access.can('deliveries:write') && (state === '' || state === 'failed' || state === 'skipped')
  const content = html`<p class="ba-lead">${t`Each event on its way to each endpoint, with every attempt.`}</p>
${deliveryFilterForm(context, filter, endpoints)}
${
  data.length > 0
    ? html`<div data-live="${isMoving(data) ? 'yes' : 'no'}">${deliveryTable(context, data, endpoints)}</div>`
    : isFiltered(filter)
      ? empty(t`No delivery matches.`, buttonLink(link('/deliveries'), t`Clear filters`))
      : empty(
          endpoints.length === 0
            ? t`Deliveries appear here once there is an endpoint.`
            : t`Nothing was delivered yet. The next event will be here.`,
          endpoints.length === 0 &&
            access.can('endpoints:write') &&
            buttonLink(link('/endpoints/new'), t`Add endpoint`, 'main'),
        )
}
${pageLinks(context, '/deliveries', { ...filter }, before, next)}`
  const acts =
    canRecover &&
    data.length > 0 &&
    questionLink(link('/deliveries/recover', { ...filter, state: null, event: null }), t`Send failed again`)
  return { title: t`Deliveries`, content, acts }
}

// --- The filter ---

/** The filter of the delivery log as the URL has it; empty texts select all. */
export interface DeliverySearch extends Period {
  readonly state: DeliveryState | ''
  readonly type: EventType | ''
  readonly endpoint: string
  readonly event: string
}

/** Reads the filter of a URL or of a form; values that cannot be used count as absent. */
export function readDeliverySearch(values: { get(name: string): string | null }): DeliverySearch {
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
function toQuery({ state, type, endpoint, event, ...period }: DeliverySearch, now: number) {
  return {
    ...(state !== '' && { states: [state] }),
    ...(event !== '' && { eventId: event }),
    ...(type !== '' && { type }),
    ...(endpoint !== '' && { endpointId: endpoint }),
    ...momentsOf(period, now),
  }
}

/** The form of the filter. */
function deliveryFilterForm(
  context: Context,
  filter: DeliverySearch,
  endpoints: readonly WebhookEndpoint[],
): Html {
  const { t, link, access } = context
  const all = { value: '', text: t`All` }
  return filterForm(
    t,
    link('/deliveries'),
    isFiltered(filter),
    html`${select({ name: 'state', label: t`State` }, [all, ...DELIVERY_STATES.map((state) => ({ value: state, text: stateText(t, state) }))], filter.state)}
${select({ name: 'type', label: t`Type` }, [all, ...EVENT_TYPES.map((type) => ({ value: type, text: type }))], filter.type)}
${select({ name: 'endpoint', label: t`Endpoint` }, [all, ...endpoints.map((endpoint) => ({ value: endpoint.id, text: [...nameFor(access, endpoint)].slice(0, 60).join('') }))], filter.endpoint)}
${periodFields(context, filter)}
${input({ name: 'event', label: t`Event id` }, { value: filter.event, placeholder: 'evt_…', spellcheck: 'false', size: 14 })}`,
  )
}

// --- The table ---

/**
 * Deliveries as rows.
 *
 * @param endpoints of the organization; null leaves the column out
 */
export function deliveryTable(
  context: Context,
  deliveries: readonly Delivery[],
  endpoints: readonly WebhookEndpoint[] | null,
): Html {
  const { t, link, format, access } = context
  const names = new Map(endpoints?.map((endpoint) => [endpoint.id, nameFor(access, endpoint)]))
  const endpointCell = ({ endpointId }: Delivery) => names.get(endpointId) ?? t`Removed`
  return table<Delivery>(
    t`Deliveries`,
    [
      {
        head: t`Event`,
        cell: ({ id, type }) => html`<a href="${link(`/deliveries/${id}`)}">${breakable(type)}</a>`,
      },
      { head: t`Created`, isPlain: true, cell: ({ createdAt }) => format.time(createdAt) },
      ...(endpoints === null ? [] : [{ head: t`Endpoint`, isPlain: true, cell: endpointCell }]),
      { head: t`State`, isPlain: true, cell: (delivery: Delivery) => deliveryState(t, delivery) },
      { head: t`Attempts`, cell: ({ attempts }: Delivery) => format.number(attempts) },
      {
        head: t`Last answer`,
        cell: ({ lastStatus, lastError }: Delivery) => answerText(t, lastStatus, lastError),
      },
      {
        head: t`Next attempt`,
        cell: ({ dueAt }: Delivery) => dueText(context, dueAt),
      },
    ],
    deliveries,
  )
}

/** A type of event that a narrow column breaks behind its dot, not inside a word. */
function breakable(type: string): Content {
  const [resource, event] = type.split('.', 2)
  return event === undefined ? type : html`${resource}.<wbr>${event}`
}

/** Returns whether a delivery will soon change by itself, so that the page is worth reading again. */
export function isMoving(deliveries: readonly Pick<Delivery, 'state'>[]): boolean {
  return deliveries.some(({ state }) => state === 'pending' || state === 'sending')
}

/** The time of the next attempt. A delivery that is already due waits for a free worker, or for a paused endpoint. */
export function dueText({ t, format, now }: Context, dueAt: string | null): Content {
  if (dueAt === null) return t`None`
  return Date.parse(dueAt) <= now ? t`As soon as possible` : format.time(dueAt)
}
