import { BusinessApiError, INVALID_STATE, LIMIT_REACHED } from '../../base/errors.ts'
import { eventTypes } from '../../resources/own-events.ts'
import type { Activity } from '../../settings/activity.ts'
import type { TestResult } from '../../settings/test-delivery.ts'
import type { DeliveryState } from '../../webhooks/deliveries.ts'
import type { EndpointState, WebhookEndpoint } from '../../webhooks/endpoints.ts'
import { QUEUE_COUNT_MAX } from '../../webhooks/queue-counts.ts'
import type { Act, Context, Screen, ScreenPage } from '../context.ts'
import { choiceOf } from '../form-values.ts'
import { attributes, type Content, html } from '../html.ts'
import { buttonLink, copyableId, empty, facts, notice, questionLink } from '../views/elements.ts'
import { buttonForm, form, select } from '../views/form.ts'
import { activitySection, readActivity } from './activity.ts'
import { attemptFacts } from './attempt.ts'
import { lastRotation } from './audit.ts'
import { backfillTypes } from './backfill.ts'
import { deliveryTable, liveRegion } from './deliveries.ts'
import { DELIVERY_STATES, describeState, retriedText } from './delivery-words.ts'
import { factsOf } from './endpoint-wish.ts'
import { disabledReason, endpointOf, endpointState, nameOf, troubleTone } from './endpoint-words.ts'

/** `/endpoints/:id`. */
export async function show(context: Context): Promise<ScreenPage> {
  return showEndpoint(context, await endpointOf(context), doneNotice(context))
}

/** `/endpoints/:id/test`: sends a test event and shows the result. */
export const testing: Act = { ask: show, act: sendTest }

async function sendTest(context: Context): Promise<ScreenPage> {
  const { settings, access, params, form, t } = context
  const type = choiceOf(form, 'type', eventTypes(settings.service)) ?? undefined
  const options = { type, actor: access.actor }
  const endpoint = await endpointOf(context)
  try {
    const result = await settings.endpoints.sendTest(access.organizationId, params.id ?? '', options)
    return showEndpoint(context, endpoint, testNotice(context, result))
  } catch (error) {
    if (!(error instanceof BusinessApiError && error.code === LIMIT_REACHED)) throw error
    const text = t`Limit of 10 test events per minute reached. Try again in a moment.`
    return { ...(await showEndpoint(context, endpoint, notice('wait', text))), status: 429 }
  }
}

/** Actions without a confirmation, because each can be undone. */
export const moves = {
  pause: move('pause', 'paused'),
  resume: move('resume', 'enabled'),
  enable: move('enable', 'enabled'),
} as const

function move(verb: 'pause' | 'resume' | 'enable', to: EndpointState): Act {
  const act = async (context: Context): Promise<Screen> => {
    const { settings, access, params, link, t } = context
    const id = params.id ?? ''
    try {
      await settings.endpoints[verb](access.organizationId, id, { actor: access.actor })
      return { location: link(`/endpoints/${id}`, { done: verb }) }
    } catch (error) {
      if (!(error instanceof BusinessApiError && error.code === INVALID_STATE)) throw error
      const text = t`Nothing was done because the endpoint's status changed in the meantime.`
      return {
        ...(await showEndpoint(context, await endpointOf(context), notice('wait', text))),
        status: 409,
      }
    }
  }
  return { ask: show, act, isDone: async (context) => (await endpointOf(context)).state === to }
}

async function showEndpoint(
  context: Context,
  endpoint: WebhookEndpoint,
  message: Content,
): Promise<ScreenPage> {
  const { settings, t, link, access, format } = context
  const { id, url, types, headerNames, createdAt } = endpoint
  const mayWrite = access.can('endpoints:write')
  const read = readActivity(context, id)
  const [secretFacts, activity, deliveries] = await Promise.all([
    describeSecret(context, endpoint),
    read,
    deliveriesOf(context, endpoint, read),
  ])
  const content = html`${message}
${trouble(context, endpoint, (activity?.pendingNow ?? 0) > 0)}
${activity && activitySection(context, activity, `/endpoints/${id}`, { endpoint: id })}
${deliveries}
<h2>${t`Settings`}</h2>
${facts([
  [t`URL`, html`<code>${url}</code>`],
  [t`Events to send`, types === null ? t`All events (including future types)` : types.join(', ')],
  ...factsOf(t, endpoint),
  headerNames.length === 0
    ? null
    : [
        t`Custom headers`,
        html`${headerNames.join(', ')} <span class="ba-hint">${t`(values are hidden)`}</span>`,
      ],
  [t`Signing secret`, secretFacts],
  [t`Created`, format.time(createdAt)],
  [t`Endpoint ID`, copyableId(t, t`endpoint ID`, id)],
])}
<p class="ba-buttons">${
    mayWrite && [
      buttonLink(link(`/endpoints/${id}/edit`), t`Edit`),
      buttonLink(link(`/endpoints/${id}/rotate`), t`Rotate secret`),
      endpoint.state === 'enabled' &&
        backfillTypes(endpoint).length > 0 &&
        buttonLink(link(`/endpoints/${id}/backfill`), t`Backfill`),
    ]
  }${access.can('audit:read') && html`<a href="${link('/audit', { subject: id })}">${t`View audit log`}</a>`}</p>
${mayWrite && testForm(context, endpoint)}
${mayWrite && dangerZone(context, endpoint)}`
  const acts = mayWrite && [
    settings.capabilities.tests && buttonForm(context, link(`/endpoints/${id}/test`), t`Send test event`),
    endpoint.state === 'enabled' && buttonForm(context, link(`/endpoints/${id}/pause`), t`Pause`),
    endpoint.state === 'paused' && buttonForm(context, link(`/endpoints/${id}/resume`), t`Resume`),
    endpoint.state === 'disabled' && buttonForm(context, link(`/endpoints/${id}/enable`), t`Enable`),
  ]
  return {
    title: nameOf(endpoint),
    badge: endpointState(t, endpoint),
    content,
    acts,
    up: { href: link('/endpoints'), text: t`Webhook endpoints` },
  }
}

/** Renders the signing secret's age and when the previous secret expires. */
async function describeSecret(
  context: Context,
  { id, createdAt, previousSecretExpiresAt }: WebhookEndpoint,
): Promise<Content> {
  const { t, format } = context
  const rotation = await lastRotation(context, id)
  const overlap =
    previousSecretExpiresAt !== null &&
    html` · ${t`Previous secret expires`} ${format.time(previousSecretExpiresAt)}`
  return html`${t`Created`} ${format.time(rotation?.at ?? createdAt)}${overlap}`
}

function doneNotice({ query, t }: Context): Content {
  const texts: Readonly<Record<string, string>> = {
    changed: t`Changes saved`,
    pause: t`Endpoint paused. Deliveries stay pending until you resume it.`,
    resume: t`Endpoint resumed. Pending deliveries are sent now.`,
    enable: t`Endpoint enabled. Skipped deliveries stay skipped until you resend them.`,
    disable: t`Endpoint disabled. New events are skipped.`,
  }
  const done = query.get('done') ?? ''
  return Object.hasOwn(texts, done) && notice('good', texts[done] ?? '')
}

function trouble(
  { t, format, access, link }: Context,
  endpoint: WebhookEndpoint,
  hasPending: boolean,
): Content {
  const { id, state, failures, failingSince } = endpoint
  const since = failingSince === null ? null : html`<p>${t`Failing since`} ${format.time(failingSince)}.</p>`
  if (state === 'disabled') {
    const isByHand = endpoint.disabledReason === 'administrator' && access.can('audit:read')
    const changes = link('/audit', { subject: id, action: 'endpoint.disabled' })
    const who = isByHand && html`<p><a href="${changes}">${t`View in audit log`}</a></p>`
    const content = [html`<p>${disabledReason(t, endpoint)}</p>`, since, who]
    return notice(troubleTone(endpoint), t`Endpoint disabled`, content)
  }
  if (failures === 0) return null
  const title = t.count(failures, 'The last attempt failed', 'The last {0} attempts failed')
  const text =
    state === 'paused'
      ? t`Pending deliveries are sent when you resume the endpoint.`
      : t`Failed attempts are retried automatically.`
  const pending = html`<p>${text} <a href="${link('/deliveries', { endpoint: id, state: 'pending' })}">${t`View pending deliveries`}</a></p>`
  return notice(troubleTone(endpoint), title, [since, hasPending && pending])
}

function testForm(context: Context, { id, types }: WebhookEndpoint): Content {
  const { settings, t, link } = context
  if (!settings.capabilities.tests) return null
  const offered = eventTypes(settings.service).filter((type) => types === null || types.includes(type))
  return html`<h2>${t`Send test event`}</h2>
<p class="ba-lead">${t`Send a signed sample event. Test events don't appear in the log and don't affect endpoint health.`}</p>
${form(
  context,
  link(`/endpoints/${id}/test`),
  {},
  select(
    { name: 'type', label: t`Event type` },
    offered.map((type) => ({ value: type, text: type })),
    offered[0] ?? null,
  ),
  html`<button class="ba-button">${t`Send test event`}</button>`,
)}`
}

function testNotice(context: Context, result: TestResult): Content {
  const { t } = context
  const title = result.delivered
    ? t`Test event delivered (${result.type})`
    : t`Couldn't deliver test event (${result.type})`
  const id = facts([[t`Event ID`, copyableId(t, t`event ID`, result.eventId)]])
  return notice(result.delivered ? 'good' : 'bad', title, [id, attemptFacts(context, result)])
}

function dangerZone({ t, link }: Context, { id, state }: WebhookEndpoint): Content {
  return html`<h2>${t`Danger zone`}</h2>
<p class="ba-buttons">${
    state !== 'disabled' && questionLink(link(`/endpoints/${id}/disable`), t`Disable`, 'danger')
  }${questionLink(link(`/endpoints/${id}/delete`), t`Delete`, 'danger')}</p>`
}

// --- Deliveries ---

const LAST_DELIVERIES = 10

/** Renders the newest deliveries, filtered by the status in the URL. */
async function deliveriesOf(
  context: Context,
  { id }: WebhookEndpoint,
  activity: Promise<Activity | null>,
): Promise<Content> {
  const { settings, access, t, link, query } = context
  if (!access.can('deliveries:read')) return null
  const chosen = DELIVERY_STATES.find((state) => state === query.get('state'))
  const { data, next } = await settings.deliveries.list(access.organizationId, {
    endpointId: id,
    limit: LAST_DELIVERIES,
    ...(chosen && { states: [chosen] }),
  })
  const stateLink = (state: DeliveryState | undefined, text: string): Content => {
    const href = link(`/endpoints/${id}`, { activity: query.get('activity'), state })
    return html`<a${attributes({ href, 'aria-current': state === chosen ? 'true' : null })}>${text}</a>`
  }
  const failed = (await activity)?.failedNow ?? 0
  const verb =
    failed > QUEUE_COUNT_MAX
      ? t`Resend failed deliveries`
      : failed > 0
        ? t.count(failed, 'Resend 1 failed delivery', 'Resend {0} failed deliveries')
        : data.some(({ state }) => state === 'skipped') && t`Resend skipped deliveries`
  const nothing =
    chosen === undefined
      ? t`No deliveries yet. Events sent to this endpoint appear here.`
      : chosen === 'failed'
        ? `${t`No failed deliveries.`} ${retriedText(t)}`
        : t`No deliveries match this filter.`
  return html`<div class="ba-heading"><h2>${t`Deliveries`}</h2>${
    access.can('deliveries:write') &&
    verb &&
    questionLink(link('/deliveries/recover', { endpoint: id }), verb)
  }</div>
<nav class="ba-periods" aria-label="${t`Filter by status`}">${stateLink(undefined, t`All`)}${DELIVERY_STATES.map((state) => stateLink(state, describeState(t, state)[0]))}</nav>
${data.length === 0 ? empty(nothing) : liveRegion(context, data, deliveryTable(context, data, null))}
${next !== null && html`<p><a href="${link('/deliveries', { endpoint: id, state: chosen })}">${t`View all deliveries`}</a></p>`}`
}
