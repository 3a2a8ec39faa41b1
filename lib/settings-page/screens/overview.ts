import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { type LoggedRequest, REQUEST_CLASSES } from '../../access/request-log.ts'
import type { Activity } from '../../settings/activity.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import { buttonLink, codeBlock, notice } from '../views/elements.ts'
import { activitySection, endpointsSection, figures, periodText, readActivity } from './activity.ts'
import { disabledReason, nameOf, troubleTone } from './endpoint-words.ts'
import { periodSince } from './filter.ts'
import { readUnlogged } from './unlogged.ts'

interface Seen {
  readonly keys: readonly ApiKey[]
  readonly endpoints: readonly WebhookEndpoint[]
  readonly activity: Activity | null
  readonly requests: readonly LoggedRequest[]
}

/** `/`: problems first, then activity. New organizations see how to get started. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t } = context
  const { organizationId } = access
  const [keys, endpoints, activity, requests] = await Promise.all([
    settings.apiKeys.list(organizationId),
    settings.endpoints.list(organizationId),
    readActivity(context),
    newestRequests(context),
  ])
  const seen = { keys, endpoints, activity, requests }
  const troubles = troublesOf(context, seen)
  const hasBegun = keys.some(({ lastUsedAt }) => lastUsedAt !== null) && endpoints.length > 0
  const content = html`${
    troubles.length > 0
      ? troubles
      : hasBegun &&
        notice(
          'good',
          t`No issues`,
          html`<p>${t`All endpoints healthy, no keys expiring in the next 7 days.`}</p>`,
        )
  }
${!hasBegun && steps(context, seen)}
${activity !== null && activity.endpoints.length > 0 && [activitySection(context, activity, '/'), endpointsSection(context, activity)]}
${requestsSection(context, requests)}`
  return { title: t`Overview`, content }
}

const WEEK_MS = 7 * 24 * 60 * 60 * 1000
const LISTED_MAX = 20

function troublesOf(context: Context, { keys, endpoints, activity }: Seen): readonly Content[] {
  const { t, link, format, access, now } = context
  const troubledEndpoints = endpoints.filter(({ state, failures }) => state === 'disabled' || failures > 0)
  const expiryOf = ({ expiresAt }: ApiKey): number => Date.parse(expiresAt ?? '9999-12-31')
  const expiringKeys = keys
    .filter((key) => endOfKey(key, now) === null && key.successorId === null)
    .filter((key) => expiryOf(key) <= now + WEEK_MS)
    .toSorted((one, other) => expiryOf(one) - expiryOf(other))
  const aboutEndpoints = troubledEndpoints.slice(0, LISTED_MAX).map((endpoint) => {
    const { id, state, failingSince } = endpoint
    const isDisabled = state === 'disabled'
    const name = nameOf(endpoint)
    return notice(
      troubleTone(endpoint),
      isDisabled ? t`${name} is disabled` : t`${name} is failing`,
      html`<p>${disabledReason(t, endpoint)} ${failingSince !== null && html`${t`Failing since`} ${format.time(failingSince)}.`} <a href="${link(`/endpoints/${id}`)}">${t`View endpoint`}</a></p>`,
    )
  })
  const aboutKeys = expiringKeys
    .slice(0, LISTED_MAX)
    .map(({ id, name, expiresAt }) =>
      notice(
        'wait',
        t`API key ${name} expires soon`,
        html`<p>${t`Expires`} ${format.time(expiresAt ?? '')}. ${t`Rotate it before then to avoid failed requests.`} <a href="${link(`/keys/${id}`)}">${t`View key`}</a></p>`,
      ),
    )
  const failed = activity?.totals.failed ?? 0
  const text = t.count(failed, '1 delivery failed', '{0} deliveries failed')
  return [
    ...(access.can('endpoints:read') ? aboutEndpoints : []),
    failed > 0 &&
      notice(
        'bad',
        `${text} · ${periodText(context)}`,
        html`<p><a href="${link('/deliveries', { state: 'failed', ...periodSince(activity?.from ?? '') })}">${t`View failed deliveries`}</a></p>`,
      ),
    ...(access.can('keys:read') ? aboutKeys : []),
  ].filter((trouble) => trouble !== false)
}

function steps(context: Context, { keys, endpoints }: Seen): Content {
  const { t, link, access, reference, now } = context
  const curl = `curl ${reference?.().server ?? 'https://api.example.com'}/api/v1/clients \\\n  -H "Authorization: Bearer $API_KEY"`
  const hasKey = keys.some((key) => endOfKey(key, now) === null)
  const mayKeys = access.can('keys:write')
  const mayEndpoints = access.can('endpoints:write')
  const step = (title: string, done: string | false, content: Content): Content =>
    html`<li class="ba-card"><div><h3>${title}</h3>${done === false ? content : html`<p>✓ ${done}</p>`}</div></li>
`
  return html`<h2>${t`Get started`}</h2>
<ol class="ba-steps">
${step(
  t`Create an API key`,
  hasKey && t`API key created`,
  html`<p>${t`Create an API key to authenticate your requests.`}</p>${mayKeys && buttonLink(link('/keys/new'), t`Create API key`, 'main')}`,
)}${step(
  t`Make your first request`,
  keys.some(({ lastUsedAt }) => lastUsedAt !== null) && t`First request received`,
  codeBlock(t, curl, t`Example request`),
)}${step(
  t`Create a webhook endpoint`,
  endpoints.length > 0 && t`Endpoint created`,
  html`<p>${t`Get notified when events happen in your organization.`}</p>${mayEndpoints && buttonLink(link('/endpoints/new'), t`Create endpoint`, hasKey ? 'main' : 'plain')}`,
)}</ol>`
}

// --- API requests ---

/** Maximum number of requests to summarize: one page of the log. */
const REQUESTS_MAX = 200

async function newestRequests({ settings, access }: Context): Promise<readonly LoggedRequest[]> {
  if (!access.can('requests:read')) return []
  const page = settings.requests.list(access.organizationId, { limit: REQUESTS_MAX })
  return (await readUnlogged(page, { data: [], next: null })).data
}

function requestsSection(context: Context, requests: readonly LoggedRequest[]): Content {
  if (requests.length === 0) return null
  const { t, link, format } = context
  return html`<h2>${t`API requests`}</h2>
${figures(
  REQUEST_CLASSES.map((status) => {
    const count = requests.filter((request) => String(request.status)[0] === status[0]).length
    return [status, html`<a href="${link('/requests', { status })}">${format.number(count)}</a>`]
  }),
)}
<p class="ba-hint">${t.count(requests.length, 'Based on the last request', 'Based on the last {0} requests')}</p>`
}
