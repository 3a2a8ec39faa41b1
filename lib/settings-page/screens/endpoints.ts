import { BusinessApiError, INVALID_STATE, LIMIT_REACHED } from '../../base/errors.ts'
import { eventTypes } from '../../resources/own-events.ts'
import type { TestResult } from '../../settings/test-delivery.ts'
import type { EndpointState, WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Act, Context, Screen, ScreenPage } from '../context.ts'
import { choiceOf } from '../form-values.ts'
import { type Content, html } from '../html.ts'
import { facts } from '../views/facts.ts'
import { buttonForm, form, select } from '../views/form.ts'
import { buttonLink, questionLink } from '../views/link.ts'
import { empty, notice } from '../views/notice.ts'
import { table } from '../views/table.ts'
import { auditOf } from './audit.ts'
import { deliveryTable, isMoving } from './deliveries.ts'
import { attemptFacts } from './delivery.ts'
import { factsOf } from './endpoint-wish.ts'
import { disabledReason, endpointState, nameOf, typesText } from './endpoint-words.ts'

/** `/endpoints`. */
export async function list(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query, format } = context
  const endpoints = await settings.endpoints.list(access.organizationId)
  const act = access.can('endpoints:write') && buttonLink(link('/endpoints/new'), t`Create endpoint`, 'main')
  const content = html`${query.get('done') === 'removed' && notice('good', t`Endpoint deleted`)}
<p class="ba-lead">${t`Endpoints receive your events as signed HTTP requests.`}</p>
${
  endpoints.length === 0
    ? empty(t`No endpoints yet. Create one to get notified when events happen in your account.`, act)
    : table<WebhookEndpoint>(
        t`Webhook endpoints`,
        [
          {
            head: t`Endpoint`,
            cell: (endpoint) => html`<a href="${link(`/endpoints/${endpoint.id}`)}">${nameOf(endpoint)}</a>`,
          },
          // Text and no link: a click would send a request that the page does not control.
          { head: t`URL`, cell: ({ url }) => html`<code>${url}</code>` },
          { head: t`Events`, cell: ({ types }) => typesText(t, types) },
          { head: t`Status`, cell: (endpoint) => endpointState(t, endpoint) },
          {
            head: t`Trouble`,
            cell: (endpoint) => [
              disabledReason(t, endpoint),
              endpoint.failingSince !== null &&
                html` ${t`Failing since`} ${format.time(endpoint.failingSince)}`,
              endpoint.state !== 'disabled' && endpoint.failures === 0 && t`None`,
            ],
          },
        ],
        endpoints,
      )
}`
  return { title: t`Webhook endpoints`, content, acts: endpoints.length > 0 && act }
}

// --- One endpoint ---

/** `/endpoints/:id`. */
export async function show(context: Context): Promise<ScreenPage> {
  return showEndpoint(context, await find(context), doneNotice(context))
}

/** `/endpoints/:id/test`: sends a test and shows its result. */
export const testing: Act = { ask: show, act: sendTest }

async function sendTest(context: Context): Promise<ScreenPage> {
  const { settings, access, params, form, t } = context
  const type = choiceOf(form, 'type', eventTypes(settings.service)) ?? undefined
  const options = { type, actor: access.actor }
  const endpoint = await find(context)
  try {
    const result = await settings.endpoints.sendTest(access.organizationId, params.id ?? '', options)
    return showEndpoint(context, endpoint, testNotice(context, result))
  } catch (error) {
    if (!(error instanceof BusinessApiError && error.code === LIMIT_REACHED)) throw error
    const text = t`Your organization has sent 10 tests within a minute. Wait a little, then send it again.`
    return { ...(await showEndpoint(context, endpoint, notice('wait', text))), status: 429 }
  }
}

/** Acts that need no question first, because another act undoes each. */
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
      const text = t`Nothing was changed: the endpoint is in another state now, as shown below.`
      return { ...(await showEndpoint(context, await find(context), notice('wait', text))), status: 409 }
    }
  }
  return { ask: show, act, isDone: async (context) => (await find(context)).state === to }
}

async function find({ settings, access, params }: Context): Promise<WebhookEndpoint> {
  return settings.endpoints.get(access.organizationId, params.id ?? '')
}

async function showEndpoint(
  context: Context,
  endpoint: WebhookEndpoint,
  message: Content,
): Promise<ScreenPage> {
  const { t, link, access, format } = context
  const { id, url, types, headerNames, createdAt, failures, failingSince } = endpoint
  const mayWrite = access.can('endpoints:write')
  const [secretFacts, deliveries, changes] = await Promise.all([
    describeSecret(context, endpoint),
    lastDeliveries(context, endpoint),
    auditOf(context, id),
  ])
  const content = html`${message}
${trouble(context, endpoint, changes !== null)}
${facts([
  [t`URL`, html`<code>${url}</code>`],
  [t`State`, endpointState(t, endpoint)],
  [t`Events`, types === null ? t`All events, also types to come` : types.join(', ')],
  ...factsOf(t, endpoint),
  headerNames.length === 0
    ? null
    : [t`Headers`, html`${headerNames.join(', ')} <span class="ba-hint">${t`(values are not shown)`}</span>`],
  failingSince === null
    ? null
    : [
        t`Failing since`,
        html`${format.time(failingSince)}, ${t.count(failures, 'one attempt', '{0} attempts')}`,
      ],
  [t`Signing secret`, secretFacts],
  [t`Added`, format.time(createdAt)],
])}
${mayWrite && testForm(context, endpoint)}
${mayWrite && manage(context, endpoint)}
${deliveries}
${changes}`
  const acts = mayWrite && [
    buttonLink(link(`/endpoints/${id}/edit`), t`Change`),
    endpoint.state === 'enabled' && buttonForm(context, link(`/endpoints/${id}/pause`), t`Pause`),
    endpoint.state === 'paused' && buttonForm(context, link(`/endpoints/${id}/resume`), t`Resume`),
    endpoint.state === 'disabled' && buttonForm(context, link(`/endpoints/${id}/enable`), t`Enable`),
  ]
  return {
    title: nameOf(endpoint),
    content,
    acts,
    up: { href: link('/endpoints'), text: t`Webhook endpoints` },
  }
}

/** Shows the age of the signing secret, and the end of the overlap with the previous secret. */
async function describeSecret(
  { settings, access, t, format }: Context,
  { id, createdAt, previousSecretExpiresAt }: WebhookEndpoint,
): Promise<Content> {
  const { data } = await settings.audit.list(access.organizationId, {
    subjectId: id,
    action: 'endpoint.secret_rotated',
    limit: 1,
  })
  const overlap =
    previousSecretExpiresAt !== null &&
    html`. ${t`Two secrets sign until`} ${format.time(previousSecretExpiresAt)}`
  return html`${t`Made`} ${format.time(data[0]?.at ?? createdAt)}${overlap}`
}

function doneNotice({ query, t }: Context): Content {
  const texts: Readonly<Record<string, string>> = {
    changed: t`The changes were saved.`,
    pause: t`The endpoint is paused: events wait until you resume it.`,
    resume: t`The endpoint is enabled again: events that waited are being sent.`,
    enable: t`The endpoint is enabled. Skipped deliveries stay skipped until you send them again.`,
    disable: t`The endpoint is disabled: its events are recorded and skipped.`,
  }
  const done = query.get('done') ?? ''
  return Object.hasOwn(texts, done) && notice('good', texts[done] ?? '')
}

/** @param hasChanges whether the page lists who changed the endpoint */
function trouble(context: Context, endpoint: WebhookEndpoint, hasChanges: boolean): Content {
  const { t, format } = context
  const { state, failures, failingSince } = endpoint
  const since = failingSince === null ? null : html`<p>${t`Failing since`} ${format.time(failingSince)}.</p>`
  const who = hasChanges && html`<p><a href="#changes">${t`See who, and when`}</a></p>`
  if (state === 'disabled') {
    const isByHand = endpoint.disabledReason === 'administrator'
    return notice('wait', t`Disabled. ${disabledReason(t, endpoint)}`, [since, isByHand && who])
  }
  if (failures === 0) return null
  return notice('wait', t.count(failures, 'The last attempt failed', 'The last {0} attempts failed'), since)
}

function testForm(context: Context, { id, types }: WebhookEndpoint): Content {
  const { settings, t, link } = context
  if (!settings.capabilities.tests) return null
  const offered = eventTypes(settings.service).filter((type) => types === null || types.includes(type))
  return html`<h2>${t`Send a test`}</h2>
<p class="ba-lead">${t`One example event, signed as every other. It is in no log, and counts neither for nor against the endpoint.`}</p>
${form(
  context,
  link(`/endpoints/${id}/test`),
  {},
  select(
    { name: 'type', label: t`Type of event` },
    offered.map((type) => ({ value: type, text: type })),
    offered[0] ?? null,
  ),
  html`<button class="ba-button ba-button-main">${t`Send test`}</button>`,
)}`
}

function testNotice(context: Context, result: TestResult): Content {
  const { t } = context
  const title = result.delivered
    ? t`The test (${result.type}) was delivered`
    : t`The test (${result.type}) was not delivered`
  return notice(result.delivered ? 'good' : 'bad', title, attemptFacts(context, result))
}

function manage({ t, link }: Context, { id, state }: WebhookEndpoint): Content {
  return html`<h2>${t`Manage`}</h2>
<p class="ba-buttons">${buttonLink(link(`/endpoints/${id}/rotate`), t`Rotate signing secret`)}${
    state !== 'disabled' && questionLink(link(`/endpoints/${id}/disable`), t`Disable`, 'danger')
  }${questionLink(link(`/endpoints/${id}/remove`), t`Remove`, 'danger')}</p>`
}

const LAST_DELIVERIES = 20

async function lastDeliveries(context: Context, { id, types }: WebhookEndpoint): Promise<Content> {
  const { settings, access, t, link } = context
  if (!access.can('deliveries:read')) return null
  const { data, next } = await settings.deliveries.list(access.organizationId, {
    endpointId: id,
    limit: LAST_DELIVERIES,
  })
  const list =
    data.length === 0
      ? empty(t`Nothing was delivered yet. Events: ${typesText(t, types)}.`)
      : html`<div data-live="${isMoving(data) ? 'yes' : 'no'}">${deliveryTable(context, data, null)}</div>`
  return html`<h2>${t`Last deliveries`}</h2>
${list}
${next !== null && html`<p><a href="${link('/deliveries', { endpoint: id })}">${t`All deliveries of this endpoint`}</a></p>`}`
}
