import type { ApiKey } from '../../access/api-keys.ts'
import { type LoggedRequest, REQUEST_CLASSES, type RequestFilter } from '../../access/request-log.ts'
import { BusinessApiError, NOT_FOUND } from '../../base/errors.ts'
import type { Page } from '../../base/page.ts'
import type { Context, ScreenPage } from '../context.ts'
import { isFiltered, readForeignId, readId } from '../form-values.ts'
import { type Content, type Html, html } from '../html.ts'
import { badge, buttonLink, copyableId, empty, facts, pageLinks } from '../views/elements.ts'
import { lines } from '../views/table.ts'
import { type FilterField, logFilterForm, readFilter } from './filter.ts'

/** `/requests`: the API request log. Filtering by request ID shows all details of that request. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query } = context
  const { texts, filter } = readFilter(FIELDS, query, context)
  const before = readForeignId(query.get('before'))
  const [{ data, next }, keys] = await Promise.all([
    findRequests(context, filter, before),
    settings.apiKeys.list(access.organizationId),
  ])
  const [first] = data
  const content = html`<p class="ba-lead">${t`API requests from the last 7 days. Query strings, bodies and keys are never logged.`}</p>
${logFilterForm(context, '/requests', FIELDS, texts, keys)}
${
  first === undefined
    ? isFiltered(texts)
      ? empty(
          filter.requestId === undefined
            ? t`No requests match these filters.`
            : t`No request has this ID. Requests with a missing or unknown API key (401) aren't logged.`,
          buttonLink(link('/requests'), t`Clear filters`),
        )
      : empty(t`No requests yet. They appear here if request logging is on.`)
    : filter.requestId === undefined
      ? requestTable(context, data)
      : requestFacts(context, first)
}
${pageLinks(context, '/requests', texts, before, next)}`
  return { title: t`API requests`, content }
}

// --- The filter ---

/** The log's filter. If a request ID is set, the other fields are ignored. */
type Filter = RequestFilter<Date> & { readonly requestId?: string }

async function findRequests(
  { settings, access }: Context,
  { requestId, ...filter }: Filter,
  before: string | null,
): Promise<Page<LoggedRequest>> {
  const { organizationId } = access
  if (requestId === undefined) return settings.requests.list(organizationId, { ...filter, before })
  try {
    return { data: [await settings.requests.get(organizationId, requestId)], next: null }
  } catch (error) {
    if (error instanceof BusinessApiError && error.code === NOT_FOUND) return { data: [], next: null }
    throw error
  }
}

const FIELDS: readonly FilterField<Filter, readonly ApiKey[]>[] = [
  {
    name: 'status',
    label: (t) => t`Status`,
    choices: () => REQUEST_CLASSES.map((value) => ({ value, text: value })),
    read: (text) => REQUEST_CLASSES.filter((status) => status === text).map((status) => ({ status })),
  },
  {
    name: 'key',
    label: (t) => t`API key`,
    choices: ({ access }, keys) =>
      access.can('keys:read')
        ? keys.slice(0, KEYS_MAX).map(({ id, name }) => ({ value: id, text: name }))
        : [],
    read: (text) => (readId(text) === '' ? [] : [{ keyId: text }]),
  },
  {
    name: 'id',
    label: (t) => t`Request ID`,
    attributes: { type: 'search', placeholder: 'req_…', size: 20 },
    read: (text) => (readForeignId(text) === null ? [] : [{ requestId: text }]),
  },
]

/** Maximum number of keys in the filter, newest first, because revoked keys are kept forever. */
const KEYS_MAX = 50

// --- Requests ---

function requestTable(context: Context, requests: readonly LoggedRequest[]): Html {
  const { t, link, format } = context
  return lines<LoggedRequest>(
    t`API requests`,
    [
      {
        head: t`Request`,
        cell: ({ id, method, path }) => html`<a href="${link('/requests', { id })}">${method} ${path}</a>`,
      },
      { head: t`Status`, width: 'small', cell: ({ status }) => statusBadge(status) },
      { head: t`Duration`, width: 'small', cell: ({ durationMs }) => format.duration(durationMs) },
      { head: t`API key`, width: 'medium', cell: ({ keyName }) => keyName },
      { head: t`Time`, note: format.timeZone, width: 'medium', cell: ({ at }) => format.short(at) },
    ],
    requests,
  )
}

function requestFacts(context: Context, request: LoggedRequest): Content {
  const { t, format, access, link } = context
  const { id, at, keyId, keyName, method, route, path, status, durationMs, error, isReplay } = request
  const isLinked = access.can('keys:read') && readId(keyId) !== ''
  return facts([
    [t`Request ID`, copyableId(t, t`request ID`, id)],
    [t`Time`, format.time(at)],
    [t`Request`, html`<code>${method} ${path}</code>`],
    route === path ? null : [t`Route`, html`<code>${method} ${route}</code>`],
    [t`Status`, statusBadge(status)],
    error === null ? null : [t`Error`, error],
    [t`Duration`, format.duration(durationMs)],
    [t`API key`, isLinked ? html`<a href="${link(`/keys/${keyId}`)}">${keyName}</a>` : keyName],
    isReplay ? [t`Idempotent replay`, t`Yes`] : null,
  ])
}

function statusBadge(status: number): Html {
  return badge(status < 400 ? 'good' : 'bad', String(status))
}
