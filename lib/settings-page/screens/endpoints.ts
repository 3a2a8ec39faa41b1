import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, ScreenPage } from '../context.ts'
import { html } from '../html.ts'
import { buttonLink, empty, notice } from '../views/elements.ts'
import { lines } from '../views/table.ts'
import { errorRate, readActivity } from './activity.ts'
import { endpointState, nameOf, typesText } from './endpoint-words.ts'

/** `/endpoints`. */
export async function list(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query } = context
  const [endpoints, activity] = await Promise.all([
    settings.endpoints.list(access.organizationId),
    readActivity(context),
  ])
  const counted = new Map(activity?.endpoints.map((endpoint) => [endpoint.endpointId, endpoint]))
  const act = access.can('endpoints:write') && buttonLink(link('/endpoints/new'), t`Create endpoint`, 'main')
  const content = html`${query.get('done') === 'deleted' && notice('good', t`Endpoint deleted`)}
<p class="ba-lead">${t`Endpoints receive your events as signed HTTP requests.`}</p>
${
  endpoints.length === 0
    ? empty(t`No endpoints yet. Create one to get notified when events happen in your organization.`, act)
    : lines<WebhookEndpoint>(
        t`Webhook endpoints`,
        [
          {
            head: t`Endpoint`,
            cell: (endpoint) => html`<a href="${link(`/endpoints/${endpoint.id}`)}">${nameOf(endpoint)}</a>`,
          },
          { head: t`Events`, width: 'small', cell: ({ types }) => typesText(t, types) },
          ...(activity === null
            ? []
            : [
                {
                  head: t`Error rate (24 h)`,
                  isHeadShown: true,
                  width: 'medium' as const,
                  cell: ({ id }: WebhookEndpoint) => errorRate(context, counted.get(id)),
                },
              ]),
          // Not a link, because a click would send a request that the page doesn't control.
          { head: t`URL`, cell: ({ url }) => html`<code>${url}</code>` },
          { head: t`Status`, width: 'small', cell: (endpoint) => endpointState(t, endpoint) },
        ],
        endpoints,
      )
}`
  return { title: t`Webhook endpoints`, content, acts: endpoints.length > 0 && act }
}
