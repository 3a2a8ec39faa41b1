import { BusinessApiError, INVALID_STATE } from '../../base/errors.ts'
import { eventTypes } from '../../resources/own-events.ts'
import type { ListedEvent } from '../../settings/events.ts'
import type { EventFilter } from '../../webhooks/event-log.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { isFiltered, readForeignId, textOf } from '../form-values.ts'
import { type Content, exact, html } from '../html.ts'
import { buttonLink, codeBlock, copyableId, empty, facts, notice, pageLinks } from '../views/elements.ts'
import { form, select } from '../views/form.ts'
import { lines } from '../views/table.ts'
import { pretty } from './attempt.ts'
import { deliveryTable, liveRegion } from './deliveries.ts'
import { DELIVERY_STATES, describeState } from './delivery-words.ts'
import { nameFor } from './endpoint-words.ts'
import { backTo, type FilterField, logFilterForm, readFilter } from './filter.ts'
import { recordLink } from './record-words.ts'

/** `/events`: all events of the organization, including those without deliveries. */
export async function list(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, format, query } = context
  const { texts, filter } = readFilter(FIELDS, query, context)
  const before = readForeignId(query.get('before'))
  const { data, next } = await settings.events.list(access.organizationId, { ...filter, before })
  const content = html`<p class="ba-lead">${t`All events in your organization, including those not sent to an endpoint.`}</p>
${logFilterForm(context, '/events', FIELDS, texts, null)}
${
  data.length > 0
    ? lines<ListedEvent>(
        t`Events`,
        [
          {
            head: t`Event`,
            // Hosts may choose event IDs that can't be part of a path.
            cell: ({ id, type }) =>
              /^[\w-]{1,64}$/.test(id)
                ? html`<a href="${link(`/events/${id}`)}">${type}</a>`
                : html`${type} <code>${id}</code>`,
          },
          {
            head: t`Deliveries`,
            width: 'large',
            cell: (event) => html`<span class="ba-whole">${countsText(context, event)}</span>`,
          },
          { head: t`Resource`, cell: ({ subjectId }) => recordLink(context, subjectId) },
          {
            head: t`Time`,
            note: format.timeZone,
            width: 'medium',
            cell: ({ createdAt }) => format.short(createdAt),
          },
        ],
        data,
      )
    : isFiltered(texts)
      ? empty(t`No events match these filters.`, buttonLink(link('/events'), t`Clear filters`))
      : empty(t`No events yet. They appear here when something happens in your organization.`)
}
${pageLinks(context, '/events', texts, before, next)}`
  return { title: t`Events`, content }
}

const FIELDS: readonly FilterField<EventFilter<Date>>[] = [
  {
    name: 'type',
    label: (t) => t`Event type`,
    choices: ({ settings }) => eventTypes(settings.service).map((type) => ({ value: type, text: type })),
    read: (type, { settings }) => (eventTypes(settings.service).includes(type) ? [{ type }] : []),
  },
  {
    name: 'record',
    label: (t) => t`Resource ID or number`,
    attributes: { placeholder: 'inv_…', size: 14 },
    read: (text) => (readForeignId(text) === null ? [] : [{ subjectId: text }]),
  },
]

/** Formats the number of deliveries by status: `2 Delivered, 1 Failed`. */
function countsText({ t, format }: Context, { deliveries }: Pick<ListedEvent, 'deliveries'>): string {
  const counted = DELIVERY_STATES.flatMap((state) => {
    const { [state]: count = 0 } = deliveries
    return count === 0 ? [] : [`${format.number(count)}\u00a0${describeState(t, state)[0]}`]
  })
  return counted.join(', ') || t`None`
}

// --- One event ---

/** `/events/:id`. */
export async function show(context: Context): Promise<ScreenPage> {
  return showEvent(context, null)
}

/** `/events/:id/redeliver`: sends the event to the selected endpoint. */
export const redelivery = {
  ask: show,
  async act(context: Context): Promise<Screen> {
    const { settings, access, params, form: sent, link, t } = context
    const options = { endpointId: textOf(sent, 'to') || '-', actor: access.actor }
    try {
      const { id } = await settings.events.redeliver(access.organizationId, params.id ?? '', options)
      return { location: link(`/deliveries/${id}`, { done: 'redelivered' }) }
    } catch (error) {
      if (!(error instanceof BusinessApiError && error.code === INVALID_STATE)) throw error
      const text = t`Couldn't resend: the delivery to this endpoint is pending or sending.`
      return { ...(await showEvent(context, notice('wait', text))), status: 409 }
    }
  },
}

async function showEvent(context: Context, message: Content): Promise<ScreenPage> {
  const { settings, access, params, t, link, format } = context
  const [event, endpoints] = await Promise.all([
    settings.events.get(access.organizationId, params.id ?? ''),
    settings.endpoints.list(access.organizationId),
  ])
  const { id, type, createdAt, subjectId, onlyEndpointId, body, deliveryLog } = event
  const only = endpoints.find((endpoint) => endpoint.id === onlyEndpointId)
  const offered = endpoints.filter(({ state }) => state !== 'disabled')
  const { href, from } = backTo(context, '/events', FIELDS)
  const content = html`${message}
${facts([
  [t`Event ID`, copyableId(t, t`event ID`, id)],
  [t`Created`, format.time(createdAt)],
  subjectId === null
    ? null
    : [t`Resource`, copyableId(t, t`resource ID`, subjectId, recordLink(context, subjectId))],
  onlyEndpointId === null ? null : [t`Backfill for`, only ? nameFor(access, only) : onlyEndpointId],
])}
<h2>${t`Payload`}</h2>
${codeBlock(t, pretty(body), t`Payload`)}
<details><summary>${t`Raw`}</summary>${codeBlock(t, exact(body), t`Raw request body`)}</details>
<h2>${t`Deliveries`}</h2>
${
  deliveryLog.length === 0
    ? empty(t`Not sent to any endpoint.`)
    : liveRegion(context, deliveryLog, deliveryTable(context, deliveryLog, endpoints))
}
${
  access.can('deliveries:write') &&
  offered.length > 0 &&
  html`<h2>${t`Resend`}</h2>
${form(
  context,
  link(`/events/${id}/redeliver`, { from }),
  {},
  select(
    { name: 'to', label: t`Endpoint` },
    offered.map((endpoint) => ({ value: endpoint.id, text: nameFor(access, endpoint) })),
    null,
  ),
  html`<button class="ba-button ba-button-main">${t`Resend event`}</button>`,
)}`
}`
  return { title: type, content, up: { href, text: t`Events` } }
}
