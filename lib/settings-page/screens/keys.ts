import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import type { Context, Page } from '../context.ts'
import { html } from '../html.ts'
import { buttonLink, quietLink } from '../views/link.ts'
import { empty } from '../views/notice.ts'
import { table } from '../views/table.ts'
import { keyState, scopeText } from './key-words.ts'

/** `/keys`: the keys in force; a link leads to revoked and expired keys. */
export async function show(context: Context): Promise<Page> {
  const { settings, access, t, format, query, link, now } = context
  const all = await settings.apiKeys.list(access.organizationId)
  const inForce = all.filter((key) => endOfKey(key, now) === null)
  const isAll = query.get('show') === 'all'
  const keys = isAll
    ? [...inForce, ...all.filter((key) => endOfKey(key, now) !== null)].slice(0, ROWS_MAX)
    : inForce
  const mayWrite = access.can('keys:write')
  const act = mayWrite && buttonLink(link('/keys/new'), t`New key`, 'main')
  const ended = all.length - inForce.length
  const never = t`Never`
  const content = html`<p class="ba-lead">${t`Keys let programs of yours call the API. A key is shown once, when it is made.`}</p>
${
  keys.length === 0
    ? empty(t`No key is in force.`, act)
    : table<ApiKey>(
        t`API keys`,
        [
          { head: t`Name`, cell: ({ id, name }) => html`<a href="${link(`/keys/${id}`)}">${name}</a>` },
          { head: t`Key`, cell: ({ prefix, lastFour }) => html`<code>${prefix}…${lastFour}</code>` },
          { head: t`May`, cell: ({ scopes }) => scopeText(t, scopes) },
          { head: t`Created`, cell: ({ createdAt }) => format.time(createdAt) },
          { head: t`Last used`, cell: ({ lastUsedAt }) => (lastUsedAt ? format.time(lastUsedAt) : never) },
          { head: t`Expires`, cell: ({ expiresAt }) => (expiresAt ? format.time(expiresAt) : never) },
          { head: t`State`, cell: (key) => keyState(t, key, now) },
        ],
        keys,
      )
}
${
  ended > 0 &&
  html`<p>${
    isAll
      ? quietLink(link('/keys'), t`Hide revoked and expired keys`)
      : quietLink(link('/keys', { show: 'all' }), t`Show revoked and expired keys`)
  }</p>`
}`
  return { title: t`API keys`, content, acts: keys.length > 0 && act }
}

/** Rows of a list at most: revoked keys are kept for good, and a page needs a bound. */
const ROWS_MAX = 200
