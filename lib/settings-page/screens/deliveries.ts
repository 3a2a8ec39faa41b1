import { isIdOf } from '../../base/ids.ts'
import { eventTypes } from '../../resources/own-events.ts'
import {
  type Delivery,
  type DeliveryFilter,
  type DeliveryState,
  RESPONSES,
  type ResponseClass,
} from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { isFiltered, readForeignId, readId } from '../form-values.ts'
import { attributes, type Content, type Html, html } from '../html.ts'
import { buttonLink, empty, notice, pageLinks, questionLink } from '../views/elements.ts'
import { selectionForm } from '../views/form.ts'
import { lines } from '../views/table.ts'
import { DELIVERY_STATES, deliveryState, describeState, errorText, retriedText } from './delivery-words.ts'
import { shortName } from './endpoint-words.ts'
import { type Back, backTo, type FilterField, logFilterForm, readFilter, type ShownFilter } from './filter.ts'

/** `/deliveries`: the delivery log of all endpoints. The filter is in the URL. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query } = context
  const { texts, filter } = readDeliveryFilter(context, query, true)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('dlv', cursor) ? cursor : null
  const [{ data, next }, endpoints] = await Promise.all([
    settings.deliveries.list(access.organizationId, { ...filter, before }),
    settings.endpoints.list(access.organizationId),
  ])
  const { state = '', response = '', event = '' } = texts
  const mayWrite = access.can('deliveries:write')
  const canRecover =
    mayWrite && response === '' && event === '' && (state === '' || state === 'failed' || state === 'skipped')
  const list = deliveryTable(context, data, endpoints, mayWrite)
  const verbs = { none: t`Resend selected`, ...t.forms(...RESEND) }
  const content = html`<p class="ba-lead">${t`Each delivery sends an event to an endpoint.`}</p>
${logFilterForm(context, '/deliveries', FIELDS, texts, endpoints)}
${resentNotice(context)}
${
  data.length > 0
    ? liveRegion(
        context,
        data,
        mayWrite
          ? selectionForm(context, link('/deliveries/resend', { ...texts, before }), verbs, list)
          : list,
      )
    : isFiltered(texts)
      ? empty(
          t`No deliveries match these filters.` + (state === 'failed' ? ` ${retriedText(t)}` : ''),
          buttonLink(link('/deliveries'), t`Clear filters`),
        )
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
      t`Resend failed deliveries`,
    )
  return { title: t`Deliveries`, content, acts }
}

/** A button's text by the number of deliveries. */
export const RESEND = ['Resend 1 delivery', 'Resend {0} deliveries'] as const

/** Renders how many selected deliveries were resent, after the form's redirect. */
function resentNotice({ query, t }: Context): Content {
  const [resent, left] = ['resent', 'left'].map((name) =>
    Number(/^\d{1,2}$/.exec(query.get(name) ?? '')?.[0] ?? -1),
  )
  if (resent === undefined || left === undefined || resent < 0) return null
  if (resent + left <= 0) return notice('wait', t`Select at least one delivery`)
  return [
    resent > 0 && notice('good', t.count(resent, '1 delivery queued', '{0} deliveries queued')),
    left > 0 &&
      notice(
        'wait',
        t.count(left, "Couldn't resend 1 delivery", "Couldn't resend {0} deliveries"),
        html`<p>${t`Pending or sending, or the endpoint was deleted.`}</p>`,
      ),
  ]
}

// --- The filter ---

/** The list's filter. Resending failed deliveries ignores `response`. */
type Filter = DeliveryFilter<Date> & { readonly response?: ResponseClass }

/** Fields that resending failed deliveries ignores. */
const LIST_ONLY = ['state', 'response', 'event']

const FIELDS: readonly FilterField<Filter, readonly WebhookEndpoint[]>[] = [
  {
    name: 'state',
    label: (t) => t`Status`,
    choices: ({ t }) => DELIVERY_STATES.map((state) => ({ value: state, text: describeState(t, state)[0] })),
    read: (text) => DELIVERY_STATES.filter((state) => state === text).map((state) => ({ states: [state] })),
  },
  {
    name: 'response',
    label: (t) => t`Last response`,
    choices: ({ t }) =>
      RESPONSES.map((value) => ({ value, text: value === 'none' ? t`No response` : value })),
    read: (text) => RESPONSES.filter((response) => response === text).map((response) => ({ response })),
  },
  {
    name: 'type',
    label: (t) => t`Event type`,
    choices: ({ settings }) => eventTypes(settings.service).map((type) => ({ value: type, text: type })),
    read: (type, { settings }) => (eventTypes(settings.service).includes(type) ? [{ type }] : []),
  },
  {
    name: 'endpoint',
    label: (t) => t`Endpoint`,
    choices: ({ access }, endpoints) =>
      endpoints.map((one) => ({ value: one.id, text: shortName(access, one) })),
    read: (text) => (readId(text) === '' ? [] : [{ endpointId: text }]),
  },
  {
    name: 'event',
    label: (t) => t`Event ID`,
    attributes: { placeholder: 'evt_…', size: 14 },
    read: (text) => (readId(text) === '' ? [] : [{ eventId: text }]),
  },
  {
    name: 'record',
    label: (t) => t`Resource ID or number`,
    attributes: { placeholder: 'inv_…', size: 14 },
    read: (text) => (readForeignId(text) === null ? [] : [{ subjectId: text }]),
  },
]

/** Parses a delivery filter. @param isForList if `false`, ignores the fields that apply only to the list */
export function readDeliveryFilter(
  context: Context,
  values: { get(name: string): string | null },
  isForList: boolean,
): ShownFilter<Filter> {
  const fields = FIELDS.filter(({ name }) => isForList || !LIST_ONLY.includes(name))
  return readFilter(fields, values, context)
}

/** Returns where a delivery leads back to. */
export function backOf(context: Context): Back {
  return backTo(context, '/deliveries', FIELDS)
}

// --- The table ---

/**
 * Renders a list of deliveries.
 *
 * @param endpoints the organization's endpoints; `null` hides the column
 * @param isSelectable if `true`, finished deliveries have a checkbox for the form around the list
 */
export function deliveryTable(
  context: Context,
  deliveries: readonly Delivery[],
  endpoints: readonly WebhookEndpoint[] | null,
  isSelectable = false,
): Html {
  const { t, link, format, access, now } = context
  const names = new Map(endpoints?.map((endpoint) => [endpoint.id, shortName(access, endpoint)]))
  const paused = new Set(endpoints?.filter(({ state }) => state === 'paused').map(({ id }) => id))
  const isLater = ({ dueAt }: Delivery) => dueAt !== null && Date.parse(dueAt) > now
  return lines<Delivery>(
    t`Deliveries`,
    [
      {
        head: t`Event`,
        width: 'large',
        cell: ({ id, type, state }) =>
          html`${isSelectable && (isOpen(state) ? html`<i></i> ` : html`<input${attributes({ type: 'checkbox', name: 'id', value: id, 'aria-label': type })}> `)}<a href="${link(`/deliveries/${id}`)}">${type}</a>`,
      },
      { head: t`Status`, width: 'small', cell: (delivery) => deliveryState(t, delivery) },
      {
        head: t`Last response`,
        ...(deliveries.some(isLater) && { width: endpoints === null ? 'large' : 'medium' }),
        cell: (delivery) => {
          const { state, dueAt, endpointId, lastStatus, lastError } = delivery
          const answer = lastStatus ?? (lastError === null ? '–' : errorText(t, lastError))
          const isPaused = state === 'pending' && paused.has(endpointId)
          if (isPaused) return answer === '–' ? t`Endpoint paused` : `${t`Endpoint paused`} · ${answer}`
          if (dueAt === null || !isLater(delivery)) return answer
          const unit = Date.parse(dueAt) - now < HALF_DAY_MS ? 'hour' : 'minute'
          return html`${t`Retry`} ${format.short(dueAt, unit)} · ${answer}`
        },
      },
      ...(endpoints === null
        ? []
        : [
            {
              head: t`Endpoint`,
              cell: ({ endpointId }: Delivery) => names.get(endpointId) ?? t`Deleted endpoint`,
            },
          ]),
      {
        head: t`Resource`,
        cell: ({ subjectId }) =>
          subjectId !== null &&
          html`<a href="${link('/deliveries', { record: subjectId })}">${subjectId}</a>`,
      },
      {
        head: t`Created`,
        note: format.timeZone,
        width: 'medium',
        cell: ({ createdAt }) => format.short(createdAt),
      },
    ],
    deliveries,
  )
}

const HALF_DAY_MS = 12 * 60 * 60 * 1000

function isOpen(state: DeliveryState): boolean {
  return state === 'pending' || state === 'sending'
}

/** Renders content that the script refreshes while a delivery is open, or a Refresh link without the script. */
export function liveRegion(
  { t }: Context,
  deliveries: readonly Pick<Delivery, 'state'>[],
  content: Content,
): Html {
  const moves = deliveries.some(({ state }) => isOpen(state))
  return html`${moves && html`<p class="ba-live"><a class="ba-quiet-link" href="" data-refresh>${t`Refresh`}</a></p>`}<div data-live="${moves ? 'yes' : 'no'}">${content}</div>`
}

/** Renders the next attempt, or what a delivery that is already due waits for. */
export function dueText(
  { t, format, now }: Context,
  { dueAt, lastStatus }: Pick<Delivery, 'dueAt' | 'lastStatus'>,
  endpoint: WebhookEndpoint | null,
): Content {
  if (dueAt === null) return t`None`
  if (endpoint === null || endpoint.state === 'disabled') return t`None: endpoint disabled or deleted`
  if (endpoint.state === 'paused') return t`When the endpoint is resumed`
  if (Date.parse(dueAt) > now) return format.time(dueAt)
  if (lastStatus === 429 || lastStatus === 503) return t`Delayed by the endpoint's ${lastStatus} response`
  const limit = endpoint.maxPerSecond
  return limit === null ? t`Now` : t`Queued: limit of ${limit} per second`
}
