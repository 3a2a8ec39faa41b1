import { BusinessApiError, INVALID_STATE, NOT_FOUND } from '../../base/errors.ts'
import type { DeliveryAttempt } from '../../webhooks/claims.ts'
import type { DeliveryDetails } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Act, Context, Screen, ScreenPage } from '../context.ts'
import { type Content, exact, type Html, html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { codeBlock } from '../views/copyable.ts'
import { facts } from '../views/facts.ts'
import { buttonForm } from '../views/form.ts'
import { questionLink } from '../views/link.ts'
import { empty, notice } from '../views/notice.ts'
import { auditOf } from './audit.ts'
import { dueText, isMoving } from './deliveries.ts'
import { answerText, deliveryState, reasonText } from './delivery-words.ts'
import { nameOf } from './endpoint-words.ts'

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
  try {
    await settings.deliveries.redeliver(access.organizationId, id, { actor: access.actor })
    return { location: link(`/deliveries/${id}`, { done: 'redelivered' }) }
  } catch (error) {
    return refused(
      error,
      context,
      t`Couldn't resend: the delivery is still in progress, or its endpoint was deleted.`,
    )
  }
}

/** `/deliveries/:id/cancel`. */
export const cancellation = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link } = context
    const delivery = await find(context)
    const { id, type, state } = delivery
    if (state !== 'pending') return showDelivery(context, delivery, null)
    return confirmationPage(context, {
      title: t`Cancel delivery?`,
      consequences: [t`${type} won't be sent to this endpoint. You can resend it later.`],
      action: link(`/deliveries/${id}/cancel`),
      back: link(`/deliveries/${id}`),
      verb: t`Cancel delivery`,
    })
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, link, t } = context
    const id = params.id ?? ''
    try {
      await settings.deliveries.cancel(access.organizationId, id, { actor: access.actor })
      return { location: link(`/deliveries/${id}`, { done: 'cancelled' }) }
    } catch (error) {
      return refused(error, context, t`Couldn't cancel: the delivery is sending or already completed.`)
    }
  },
}

async function find({ settings, access, params }: Context): Promise<DeliveryDetails> {
  return settings.deliveries.get(access.organizationId, params.id ?? '')
}

/**
 * Shows the present state of a delivery that refused an act.
 *
 * @throws every error that has another cause than the state
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
  const { t, link, format, access } = context
  const { id, eventId, endpointId, type, state, reason, attempts, dueAt, createdAt, finishedAt, body } =
    delivery
  const found = await findEndpoint(context, endpointId)
  const endpoint = found && access.can('endpoints:read') ? nameOf(found) : null
  const url = await urlSince(context, found, createdAt)
  const content = html`${message}
<div data-live="${isMoving([delivery]) ? 'yes' : 'no'}">
${facts([
  [t`Status`, deliveryState(t, delivery)],
  reason === null ? null : [t`Error`, reasonText(t, reason)],
  [t`Event ID`, html`<a href="${link('/deliveries', { event: eventId })}"><code>${eventId}</code></a>`],
  [
    t`Endpoint`,
    endpoint === null
      ? html`<code>${endpointId}</code>`
      : html`<a href="${link(`/endpoints/${endpointId}`)}">${endpoint}</a>`,
  ],
  [t`Created`, format.time(createdAt)],
  finishedAt === null ? null : [t`Completed`, format.time(finishedAt)],
  dueAt === null ? null : [t`Next attempt`, dueText(context, dueAt)],
  [t`Attempts`, format.number(attempts)],
])}
<h2>${t`Attempts`}</h2>
${delivery.attemptLog.length === 0 && empty(t`No attempts yet.`)}
${delivery.attemptLog.toReversed().map(
  (attempt) => html`<section><h3>${t`Attempt ${attempt.number}`}, ${format.time(attempt.startedAt)}</h3>
${attemptFacts(context, { ...attempt, bodyExcerpt: withoutUrl(context, url, attempt.bodyExcerpt) })}</section>
`,
)}</div>
<h2>${t`Request body`}</h2>
${codeBlock(t, pretty(body), t`Request body`)}
<details><summary>${t`Raw`}</summary>${codeBlock(t, exact(body), t`Raw request body`)}</details>
${await auditOf(context, id)}`
  const isOpen = state === 'pending' || state === 'sending'
  const acts = access.can('deliveries:write') && [
    !isOpen && buttonForm(context, link(`/deliveries/${id}/redeliver`), t`Resend`),
    state === 'pending' && questionLink(link(`/deliveries/${id}/cancel`), t`Cancel`, 'danger'),
  ]
  return { title: type, content, acts, up: { href: link('/deliveries'), text: t`Deliveries` } }
}

/** The endpoint of a delivery; null for a removed endpoint. */
async function findEndpoint({ settings, access }: Context, id: string): Promise<WebhookEndpoint | null> {
  try {
    return await settings.endpoints.get(access.organizationId, id)
  } catch (error) {
    if (error instanceof BusinessApiError && error.code === NOT_FOUND) return null
    throw error
  }
}

/** The URL to which all attempts of a delivery went, for a person without the right to see endpoints; null if it is no longer known. */
async function urlSince(
  { settings, access }: Context,
  endpoint: WebhookEndpoint | null,
  createdAt: string,
): Promise<string | null> {
  if (endpoint === null || access.can('endpoints:read')) return null
  const updates = {
    subjectId: endpoint.id,
    action: 'endpoint.updated',
    since: createdAt,
    limit: 200,
  } as const
  const { data, next } = await settings.audit.list(access.organizationId, updates)
  const isOther = data.some(({ details: { fields } }) => Array.isArray(fields) && fields.includes('url'))
  return isOther || next !== null ? null : endpoint.url
}

/**
 * A receiver may repeat the URL that was asked, with tokens in path or query: for a person without the right to see endpoints they are left
 * out, and so is the excerpt when the URL is no longer known. Parts of fewer than 8 characters are words.
 */
function withoutUrl({ access }: Context, url: string | null, excerpt: string): string {
  if (access.can('endpoints:read')) return excerpt
  if (url === null) return ''
  const { pathname, search } = new URL(url)
  const tokens = `${pathname}${search}`.split(/[/?&=]/).filter(({ length }) => length >= 8)
  const decoded = new URLSearchParams(tokens.map((token) => `_=${token}`).join('&')).getAll('_')
  return [pathname + search, pathname, ...tokens, ...decoded]
    .filter((part) => part !== '/')
    .reduce((text, part) => text.replaceAll(part, '…'), excerpt)
}

function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}

/** Shows the result of an attempt: the answer in words, the time of each phase, and the beginning of the answer's body. */
export function attemptFacts(
  { t, format, access }: Context,
  attempt: Omit<DeliveryAttempt, 'number' | 'startedAt' | 'headers'>,
): Html {
  const { status, error, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt, location } = attempt
  const phases = [
    [t`DNS lookup`, dnsMs],
    [t`Connect`, connectMs],
    [t`TLS`, tlsMs],
    [t`First byte`, firstByteMs],
  ] as const
  const parts = phases.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${format.duration(ms)}`]))
  return html`${facts([
    [t`Status`, answerText(t, status, error)],
    // A redirect mostly repeats the endpoint's own URL.
    location === null || !access.can('endpoints:read') ? null : [t`Redirects to`, location],
    [t`Duration`, `${format.duration(durationMs)}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`],
  ])}${bodyExcerpt !== '' && codeBlock(t, bodyExcerpt, t`Response body`)}${bodyExcerpt.includes('\uFFFD') && html`<p class="ba-hint">${t`Not valid UTF-8. Unreadable bytes are shown as ${'\uFFFD'}.`}</p>`}`
}
