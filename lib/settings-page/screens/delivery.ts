import { BusinessApiError, INVALID_STATE, NOT_FOUND } from '../../base/errors.ts'
import type { DeliveryDetails } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Act, Context, Screen, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { copyableId, empty, facts, notice, questionLink } from '../views/elements.ts'
import { buttonForm } from '../views/form.ts'
import { attemptTable, chosenAttempt, requestBody, showAttempt } from './attempt.ts'
import { auditOf } from './audit.ts'
import { backOf, dueText, liveRegion } from './deliveries.ts'
import { deliveryState, reasonText } from './delivery-words.ts'
import { nameOf } from './endpoint-words.ts'
import { recordLink } from './record-words.ts'

/** `/deliveries/:id`. */
export async function show(context: Context): Promise<ScreenPage> {
  const { query, t } = context
  const done = query.get('done')
  const message =
    done === 'redelivered'
      ? notice('good', t`Resend queued`)
      : done === 'cancelled' && notice('good', t`Delivery cancelled`)
  return showDelivery(context, await find(context), message)
}

/** `/deliveries/:id/redeliver`. */
export const redelivery: Act = { ask: show, act: redeliver }

async function redeliver(context: Context): Promise<Screen> {
  const { settings, access, params, link, t } = context
  const id = params.id ?? ''
  const { from } = backOf(context)
  try {
    await settings.deliveries.redeliver(access.organizationId, id, { actor: access.actor })
    return { location: link(`/deliveries/${id}`, { done: 'redelivered', from }) }
  } catch (error) {
    return refused(
      error,
      context,
      t`Couldn't resend: the delivery is pending or sending, or its endpoint was deleted.`,
    )
  }
}

/** `/deliveries/:id/cancel`. */
export const cancellation = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link } = context
    const delivery = await find(context)
    const { id, type, state } = delivery
    const { from } = backOf(context)
    if (state !== 'pending') return showDelivery(context, delivery, null)
    return confirmationPage(context, {
      title: t`Cancel delivery?`,
      consequences: [t`${type} won't be sent to this endpoint. You can resend it later.`],
      action: link(`/deliveries/${id}/cancel`, { from }),
      back: link(`/deliveries/${id}`, { from }),
      verb: t`Cancel delivery`,
      dismiss: t`Don't cancel`,
    })
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, link, t } = context
    const id = params.id ?? ''
    const { from } = backOf(context)
    try {
      await settings.deliveries.cancel(access.organizationId, id, { actor: access.actor })
      return { location: link(`/deliveries/${id}`, { done: 'cancelled', from }) }
    } catch (error) {
      return refused(error, context, t`Couldn't cancel: the delivery is sending or already completed.`)
    }
  },
}

async function find({ settings, access, params }: Context): Promise<DeliveryDetails> {
  return settings.deliveries.get(access.organizationId, params.id ?? '')
}

/**
 * Shows the current state of a delivery that rejected an action.
 *
 * @throws any other error
 */
async function refused(error: unknown, context: Context, text: string): Promise<ScreenPage> {
  if (!(error instanceof BusinessApiError && error.code === INVALID_STATE)) throw error
  return { ...(await showDelivery(context, await find(context), notice('wait', text))), status: 409 }
}

async function showDelivery(
  context: Context,
  delivery: DeliveryDetails,
  message: Content,
): Promise<ScreenPage> {
  const { t, link, format, access, now } = context
  const { id, eventId, endpointId, subjectId, type, state, reason, dueAt, createdAt, finishedAt } = delivery
  const chosen = chosenAttempt(context, delivery)
  const { href, from } = backOf(context)
  const endpoint = await findEndpoint(context, endpointId)
  const [url, changes] = await Promise.all([
    urlSince(context, endpoint, access.can('endpoints:read') ? (chosen?.startedAt ?? createdAt) : createdAt),
    auditOf(context, id),
  ])
  const content = html`${message}
${liveRegion(
  context,
  [delivery],
  html`${facts([
    [t`Status`, deliveryState(t, delivery)],
    reason === null ? null : [t`Error`, reasonText(t, reason)],
    dueAt === null ? null : [t`Next attempt`, dueText(context, delivery, endpoint)],
    [t`Created`, format.time(createdAt)],
    finishedAt === null ? null : [state === 'failed' ? t`Failed at` : t`Completed`, format.time(finishedAt)],
    [
      t`Endpoint`,
      endpoint !== null && access.can('endpoints:read')
        ? html`<a href="${link(`/endpoints/${endpointId}`)}">${nameOf(endpoint)}</a>`
        : copyableId(t, t`endpoint ID`, endpointId),
    ],
    subjectId === null
      ? null
      : [t`Resource`, copyableId(t, t`resource ID`, subjectId, recordLink(context, subjectId))],
    [
      t`Event ID`,
      copyableId(
        t,
        t`event ID`,
        eventId,
        html`<a href="${link('/deliveries', { event: eventId })}"><code>${eventId}</code></a>`,
      ),
    ],
    [t`Delivery ID`, copyableId(t, t`delivery ID`, id)],
  ])}
<h2>${t`Attempts`}</h2>
${chosen === null ? empty(t`No attempts yet.`) : attemptTable(context, delivery, chosen, from)}
${
  chosen === null
    ? html`<h2>${t`Request`}</h2>${requestBody(t, delivery.body)}`
    : showAttempt(context, delivery, chosen, url)
}`,
)}
${changes}`
  const isOpen = state === 'pending' || state === 'sending'
  const isLater = dueAt !== null && Date.parse(dueAt) > now && endpoint?.state === 'enabled'
  const acts = access.can('deliveries:write') && [
    (!isOpen || isLater) &&
      endpoint !== null &&
      buttonForm(context, link(`/deliveries/${id}/redeliver`, { from }), isLater ? t`Retry now` : t`Resend`),
    state === 'pending' && questionLink(link(`/deliveries/${id}/cancel`, { from }), t`Cancel`, 'danger'),
  ]
  return { title: type, content, acts, up: { href, text: t`Deliveries` } }
}

/** Reads a delivery's endpoint; `null` if it was deleted. */
async function findEndpoint({ settings, access }: Context, id: string): Promise<WebhookEndpoint | null> {
  try {
    return await settings.endpoints.get(access.organizationId, id)
  } catch (error) {
    if (error instanceof BusinessApiError && error.code === NOT_FOUND) return null
    throw error
  }
}

/** Returns the endpoint's URL if it hasn't changed since the given time, otherwise `null`. */
async function urlSince(
  { settings, access }: Context,
  endpoint: WebhookEndpoint | null,
  since: string,
): Promise<string | null> {
  if (endpoint === null) return null
  const updates = {
    subjectId: endpoint.id,
    action: 'endpoint.updated',
    since,
    limit: 200,
  } as const
  const { data, next } = await settings.audit.list(access.organizationId, updates)
  const isOther = data.some(({ details: { fields } }) => Array.isArray(fields) && fields.includes('url'))
  return isOther || next !== null ? null : endpoint.url
}
