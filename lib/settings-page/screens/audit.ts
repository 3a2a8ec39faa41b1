import { isIdOf } from '../../base/ids.ts'
import type { Context, Page } from '../context.ts'
import { isFiltered } from '../form-values.ts'
import { html } from '../html.ts'
import { buttonLink, pageLinks } from '../views/link.ts'
import { empty } from '../views/notice.ts'
import { entryList } from './audit-entries.ts'
import { auditFilterForm, readAuditFilter, toAuditQuery } from './audit-filter.ts'
import { nameOf } from './endpoint-words.ts'

/** `/audit`: the changes of the settings with their actors. Every view of the log has a URL. */
export async function show(context: Context): Promise<Page> {
  const { settings, access, t, link, query, now } = context
  const filter = readAuditFilter(query)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('aud', cursor) ? cursor : null
  const [{ data, next }, names] = await Promise.all([
    settings.audit.list(access.organizationId, { ...toAuditQuery(filter, now), before }),
    readNames(context),
  ])
  const content = html`<p class="ba-lead">${t`Every change of these settings, and who made it. Entries are kept for good.`}</p>
${auditFilterForm(context, filter, names)}
${
  data.length > 0
    ? entryList(context, data, names)
    : isFiltered(filter)
      ? empty(t`No change matches.`, buttonLink(link('/audit'), t`Clear filters`))
      : empty(t`Nothing was changed yet.`)
}
${pageLinks(context, '/audit', { ...filter }, before, next)}`
  return { title: t`Audit log`, content }
}

/** The names of the keys and endpoints that the person may see, by id. */
async function readNames({ settings, access }: Context): Promise<ReadonlyMap<string, string>> {
  const { organizationId } = access
  const [keys, endpoints] = await Promise.all([
    access.can('keys:read') ? settings.apiKeys.list(organizationId) : [],
    access.can('endpoints:read') ? settings.endpoints.list(organizationId) : [],
  ])
  return new Map([
    ...keys.map(({ id, name }) => [id, name] as const),
    ...endpoints.map((endpoint) => [endpoint.id, nameOf(endpoint)] as const),
  ])
}
