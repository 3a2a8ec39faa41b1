import { isIdOf } from '../../base/ids.ts'
import type { Context, Page } from '../context.ts'
import { html } from '../html.ts'
import { quietLink } from '../views/copyable.ts'
import { empty } from '../views/notice.ts'
import { entryList } from './audit-entries.ts'
import { nameOf } from './endpoint-words.ts'

/** `/audit`: the changes of the settings, each with the person who made the change. */
export async function show(context: Context): Promise<Page> {
  const { settings, access, t, link, query } = context
  const subject = query.get('subject')?.slice(0, 64) || undefined
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('aud', cursor) ? cursor : null
  const [{ data, next }, names] = await Promise.all([
    settings.audit.list(access.organizationId, { subjectId: subject, before }),
    readNames(context),
  ])
  const content = html`<p class="ba-lead">${t`Every change of these settings, and who made it. Entries are kept for good.`}</p>
${
  subject !== undefined &&
  html`<p>${t`Only changes of`} ${names.get(subject) ?? html`<code>${subject}</code>`}. ${quietLink(link('/audit'), t`Show all`)}</p>`
}
${data.length === 0 ? empty(subject === undefined ? t`Nothing was changed yet.` : t`Nothing matches.`) : entryList(context, data, names)}
<p class="ba-pages">${before !== null && html`<a href="${link('/audit', { subject })}">${t`Newest`}</a>`}${
    next !== null && html`<a href="${link('/audit', { subject, before: next })}">${t`Older`}</a>`
  }</p>`
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
