import { isIdOf } from '../../base/ids.ts'
import type { Context, Page } from '../context.ts'
import { html } from '../html.ts'
import { quietLink } from '../views/copyable.ts'
import { empty } from '../views/notice.ts'
import { entryList } from './audit-entries.ts'

/** `/audit`: who changed what. */
export async function show(context: Context): Promise<Page> {
  const { settings, access, t, link, query } = context
  const subject = query.get('subject')?.slice(0, 64) || undefined
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('aud', cursor) ? cursor : null
  const { data, next } = await settings.audit.list(access.organizationId, { subjectId: subject, before })
  const content = html`<p class="ba-lead">${t`Every change of these settings, and who made it. Entries are kept for good.`}</p>
${
  subject !== undefined &&
  html`<p>${t`Only changes of`} <code>${subject}</code>. ${quietLink(link('/audit'), t`Show all`)}</p>`
}
${data.length === 0 ? empty(subject === undefined ? t`Nothing was changed yet.` : t`Nothing matches.`) : entryList(context, data, true)}
<p class="ba-pages">${before !== null && html`<a href="${link('/audit', { subject })}">${t`Newest`}</a>`}${
    next !== null && html`<a href="${link('/audit', { subject, before: next })}">${t`Older`}</a>`
  }</p>`
  return { title: t`Audit log`, content }
}
