import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { html } from '../html.ts'
import { buttonLink } from '../views/link.ts'
import { empty, notice } from '../views/notice.ts'
import { lines } from '../views/table.ts'
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
    : lines<WebhookEndpoint>(
        t`Webhook endpoints`,
        [
          {
            head: t`Endpoint`,
            cell: (endpoint) => html`<a href="${link(`/endpoints/${endpoint.id}`)}">${nameOf(endpoint)}</a>`,
          },
          // Text and no link: a click would send a request that the page does not control.
          { head: t`URL`, cell: ({ url }) => html`<code>${url}</code>` },
          { head: t`Events`, width: 'small', cell: ({ types }) => typesText(t, types) },
          {
            head: t`Health`,
            cell: (endpoint) =>
              disabledReason(t, endpoint) ||
              (endpoint.failingSince === null
                ? t`No recent failures`
                : html`${t`Failing since`} ${format.short(endpoint.failingSince)}`),
          },
          { head: t`Status`, width: 'small', cell: (endpoint) => endpointState(t, endpoint) },
        ],
        endpoints,
      )
}`
  return { title: t`Webhook endpoints`, content, acts: endpoints.length > 0 && act }
}
