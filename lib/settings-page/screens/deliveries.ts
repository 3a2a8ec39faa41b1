import { isIdOf } from '../../base/ids.ts'
import { eventTypes } from '../../resources/own-events.ts'
import {
  type Delivery,
  type DeliveryFilter,
  RESPONSES,
  type ResponseClass,
} from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { isFiltered, readId } from '../form-values.ts'
import { type Content, type Html, html } from '../html.ts'
import { buttonLink, pageLinks, questionLink } from '../views/link.ts'
import { empty } from '../views/notice.ts'
import { table } from '../views/table.ts'
import { answerText, DELIVERY_STATES, deliveryState, describeState } from './delivery-words.ts'
import { nameFor } from './endpoint-words.ts'
import { type FilterField, logFilterForm, readFilter, type ShownFilter } from './filter.ts'

/** `/deliveries`: the delivery log of all endpoints. Every view of the log has a URL. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query } = context
  const { texts, filter } = readDeliveryFilter(context, query, true)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('dlv', cursor) ? cursor : null
  const [{ data, next }, endpoints] = await Promise.all([
    settings.deliveries.list(access.organizationId, { ...filter, before }),
    settings.endpoints.list(access.organizationId),
  ])
  const { state = '', response = '' } = texts
  const canRecover =
    response === '' &&
    access.can('deliveries:write') &&
    (state === '' || state === 'failed' || state === 'skipped')
  const content = html`<p class="ba-lead">${t`Every event sent to your endpoints.`}</p>
${logFilterForm(context, '/deliveries', FIELDS, texts, endpoints)}
${
  data.length > 0
    ? html`<div data-live="${isMoving(data) ? 'yes' : 'no'}">${deliveryTable(context, data, endpoints)}</div>`
    : isFiltered(texts)
      ? empty(t`No deliveries match these filters.`, buttonLink(link('/deliveries'), t`Clear filters`))
      : empty(
          endpoints.length === 0
            ? t`No deliveries yet. Create an endpoint to receive events.`
            : t`No deliveries yet. Events sent to your endpoints appear here.`,
          endpoints.length === 0 &&
            access.can('endpoints:write') &&
            buttonLink(link('/endpoints/new'), t`Create endpoint`, 'main'),
        )
}
${pageLinks(context, '/deliveries', texts, before, next)}`
  const acts =
    canRecover &&
    data.length > 0 &&
    questionLink(
      link('/deliveries/recover', readDeliveryFilter(context, query, false).texts),
      t`Resend failed`,
    )
  return { title: t`Deliveries`, content, acts }
}

// --- The filter ---

/** The filter of the list; a recovery takes no response. */
type Filter = DeliveryFilter<Date> & { readonly response?: ResponseClass }

interface Field extends FilterField<Filter, readonly WebhookEndpoint[]> {
  /** True: a recovery of many deliveries does not take it. */
  readonly isForListOnly?: true
}

const FIELDS: readonly Field[] = [
  {
    name: 'state',
    label: (t) => t`Status`,
    choices: ({ t }) => DELIVERY_STATES.map((state) => ({ value: state, text: describeState(t, state)[0] })),
    read: (text) => DELIVERY_STATES.filter((state) => state === text).map((state) => ({ states: [state] })),
    isForListOnly: true,
  },
  {
    name: 'response',
    label: (t) => t`Response`,
    choices: ({ t }) =>
      RESPONSES.map((value) => ({ value, text: value === 'none' ? t`No response` : value })),
    read: (text) => RESPONSES.filter((response) => response === text).map((response) => ({ response })),
    isForListOnly: true,
  },
  {
    name: 'type',
    label: (t) => t`Type`,
    choices: ({ settings }) => eventTypes(settings.service).map((type) => ({ value: type, text: type })),
    read: (type, { settings }) => (eventTypes(settings.service).includes(type) ? [{ type }] : []),
  },
  {
    name: 'endpoint',
    label: (t) => t`Endpoint`,
    choices: ({ access }, endpoints) =>
      endpoints.map((one) => ({ value: one.id, text: [...nameFor(access, one)].slice(0, 60).join('') })),
    read: (text) => (readId(text) === '' ? [] : [{ endpointId: text }]),
  },
  {
    name: 'event',
    label: (t) => t`Event ID`,
    attributes: { placeholder: 'evt_…', size: 14 },
    read: (text) => (readId(text) === '' ? [] : [{ eventId: text }]),
    isForListOnly: true,
  },
]

/** Reads a filter of the delivery log. @param isForList false: only the fields that a recovery takes */
export function readDeliveryFilter(
  context: Context,
  values: { get(name: string): string | null },
  isForList: boolean,
): ShownFilter<Filter> {
  const fields = FIELDS.filter(({ isForListOnly }) => isForList || !isForListOnly)
  return readFilter(fields, values, context)
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
  const endpointCell = ({ endpointId }: Delivery) => names.get(endpointId) ?? t`Deleted endpoint`
  return table<Delivery>(
    t`Deliveries`,
    [
      {
        head: t`Event`,
        cell: ({ id, type }) => html`<a href="${link(`/deliveries/${id}`)}">${breakable(type)}</a>`,
      },
      { head: t`Created`, isPlain: true, cell: ({ createdAt }) => format.time(createdAt) },
      ...(endpoints === null ? [] : [{ head: t`Endpoint`, isPlain: true, cell: endpointCell }]),
      { head: t`Status`, isPlain: true, cell: (delivery: Delivery) => deliveryState(t, delivery) },
      { head: t`Attempts`, cell: ({ attempts }: Delivery) => format.number(attempts) },
      {
        head: t`Response`,
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
  return Date.parse(dueAt) <= now ? t`Due now` : format.time(dueAt)
}
