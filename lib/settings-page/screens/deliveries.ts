import { isIdOf } from '../../base/ids.ts'
import type { Context, Page } from '../context.ts'
import { isFiltered } from '../form-values.ts'
import { html } from '../html.ts'
import { buttonLink, pageLinks, questionLink } from '../views/link.ts'
import { empty } from '../views/notice.ts'
import { deliveryFilterForm, readFilter, toQuery } from './delivery-filter.ts'
import { deliveryTable, isMoving } from './delivery-table.ts'

/** `/deliveries`: the delivery log of all endpoints. Every view of the log has a URL. */
export async function show(context: Context): Promise<Page> {
  const { settings, access, t, link, query, now } = context
  const filter = readFilter(query)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('dlv', cursor) ? cursor : null
  const [{ data, next }, endpoints] = await Promise.all([
    settings.deliveries.list(access.organizationId, { ...toQuery(filter, now), before }),
    settings.endpoints.list(access.organizationId),
  ])
  const { state } = filter
  const canRecover =
    access.can('deliveries:write') && (state === '' || state === 'dead_lettered' || state === 'skipped')
  const content = html`<p class="ba-lead">${t`Each event on its way to each endpoint, with every attempt.`}</p>
${deliveryFilterForm(context, filter, endpoints)}
${
  data.length > 0
    ? html`<div data-live="${isMoving(data) ? 'yes' : 'no'}">${deliveryTable(context, data, endpoints)}</div>`
    : isFiltered(filter)
      ? empty(t`No delivery matches.`, buttonLink(link('/deliveries'), t`Clear filters`))
      : empty(
          endpoints.length === 0
            ? t`Deliveries appear here once there is an endpoint.`
            : t`Nothing was delivered yet. The next event will be here.`,
          endpoints.length === 0 &&
            access.can('endpoints:write') &&
            buttonLink(link('/endpoints/new'), t`Add endpoint`, 'main'),
        )
}
${pageLinks(context, '/deliveries', { ...filter }, before, next)}`
  const acts =
    canRecover &&
    data.length > 0 &&
    questionLink(link('/deliveries/recover', { ...filter, state: null, event: null }), t`Send failed again`)
  return { title: t`Deliveries`, content, acts }
}
