import type { Overview } from '../../settings/overview.ts'
import type { Context, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import { codeBlock } from '../views/copyable.ts'
import { buttonLink } from '../views/link.ts'
import { notice } from '../views/notice.ts'
import { disabledReason, nameOf } from './endpoint-words.ts'

/** `/`: everything that needs an administrator first; for an organization with nothing yet, how to begin. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t } = context
  const overview = await settings.overview.get(access.organizationId)
  const troubles = troublesOf(context, overview)
  const hasBegun = overview.hasUsedApiKey && overview.hasEndpoint
  const content = html`${
    troubles.length > 0
      ? troubles
      : hasBegun &&
        notice(
          'good',
          t`All is well`,
          html`<p>${t`No endpoint fails, no key expires within 7 days, and no delivery failed in the last 24 hours.`}</p>`,
        )
  }
${!hasBegun && steps(context, overview)}`
  return { title: t`Overview`, content }
}

function troublesOf(
  context: Context,
  { troubledEndpoints, expiringApiKeys, failedDeliveries }: Overview,
): readonly Content[] {
  const { t, link, format, access } = context
  const endpoints = access.can('endpoints:read')
    ? troubledEndpoints.map((endpoint) => {
        const { id, state, failingSince } = endpoint
        const title =
          state === 'disabled' ? t`${nameOf(endpoint)} is disabled` : t`${nameOf(endpoint)} is failing`
        return notice(
          state !== 'disabled' ? 'wait' : endpoint.disabledReason === 'administrator' ? 'quiet' : 'bad',
          title,
          html`<p>${disabledReason(t, endpoint)} ${failingSince !== null && html`${t`Failing since`} ${format.time(failingSince)}.`}</p>
<p><a href="${link(`/endpoints/${id}`)}">${t`View endpoint`}</a></p>`,
        )
      })
    : []
  const keys = access.can('keys:read')
    ? expiringApiKeys.map(({ id, name, expiresAt }) =>
        notice(
          'wait',
          t`The key ${name} expires soon`,
          html`<p>${t`Expires`} ${format.time(expiresAt ?? '')}. ${t`Rotate it before its program is refused.`}</p>
<p><a href="${link(`/keys/${id}`)}">${t`View key`}</a></p>`,
        ),
      )
    : []
  const failed =
    access.can('deliveries:read') && failedDeliveries > 0
      ? [
          notice(
            'bad',
            t.count(
              failedDeliveries,
              'One delivery failed in the last 24 hours',
              '{0} deliveries failed in the last 24 hours',
            ),
            html`<p><a href="${link('/deliveries', { state: 'failed', period: '24h' })}">${t`View failed deliveries`}</a></p>`,
          ),
        ]
      : []
  return [...endpoints, ...failed, ...keys]
}

function steps(context: Context, { hasApiKey, hasUsedApiKey, hasEndpoint }: Overview): Content {
  const { t, link, access, reference } = context
  const curl = `curl ${reference?.().server ?? 'https://api.example.com'}/api/v1/clients \\\n  -H 'Authorization: Bearer …'`
  const mayKeys = access.can('keys:write')
  const mayEndpoints = access.can('endpoints:write')
  return html`<h2>${t`First steps`}</h2>
<ol class="ba-steps">
<li class="ba-card"><div><h2>${t`Make an API key`}</h2>${
    hasApiKey
      ? html`<p>${t`Done: there is a key in force.`}</p>`
      : html`<p>${t`A program of yours calls the API with it.`}</p>${mayKeys && buttonLink(link('/keys/new'), t`New key`, 'main')}`
  }</div></li>
<li class="ba-card"><div><h2>${t`Call the API`}</h2>${
    hasUsedApiKey
      ? html`<p>${t`Done: a key was used.`}</p>`
      : html`<p>${t`Put your key into this line:`}</p>${codeBlock(t, curl, t`A first call`)}`
  }</div></li>
<li class="ba-card"><div><h2>${t`Add a webhook endpoint`}</h2>${
    hasEndpoint
      ? html`<p>${t`Done: there is an endpoint.`}</p>`
      : html`<p>${t`Events then reach your program by themselves.`}</p>${mayEndpoints && buttonLink(link('/endpoints/new'), t`Add endpoint`, hasApiKey ? 'main' : 'plain')}`
  }</div></li>
</ol>`
}
