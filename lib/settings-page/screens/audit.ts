import { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from '../../access/audit.ts'
import { isStorable } from '../../base/fields.ts'
import { isIdOf } from '../../base/ids.ts'
import type { Page } from '../../base/page.ts'
import type { AuditQuery } from '../../settings/audit.ts'
import type { Context, ScreenPage } from '../context.ts'
import { isFiltered, readId } from '../form-values.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { buttonLink, empty, pageLinks, quietLink } from '../views/elements.ts'
import { type Column, table } from '../views/table.ts'
import { choiceLabel } from './endpoint-wish.ts'
import { nameOf } from './endpoint-words.ts'
import { type FilterField, logFilterForm, readFilter } from './filter.ts'

/** `/audit`: all changes of the settings and who made them. The filter is in the URL. */
export async function show(context: Context): Promise<ScreenPage> {
  const { settings, access, t, link, query } = context
  const { texts, filter } = readFilter(FIELDS, query, context)
  const cursor = query.get('before')
  const before = cursor !== null && isIdOf('aud', cursor) ? cursor : null
  const [{ data, next }, names] = await Promise.all([
    settings.audit.list(access.organizationId, { ...filter, before }),
    readNames(context),
  ])
  const { subject = '' } = texts
  const only =
    subject !== '' &&
    html`<input type="hidden" name="subject" value="${subject}">
<p class="ba-lead">${t`Entries for`} ${names.get(subject) ?? html`<code>${subject}</code>`}</p>`
  const content = html`<p class="ba-lead">${t`All changes to developer settings, including test events and resends. Entries are never deleted.`}</p>
${logFilterForm(context, '/audit', FIELDS, texts, null, only)}
${
  data.length > 0
    ? entryTable(context, data, names)
    : isFiltered(texts)
      ? empty(t`No entries match these filters.`, buttonLink(link('/audit'), t`Clear filters`))
      : empty(t`No entries yet. Changes to API keys, endpoints and deliveries appear here.`)
}
${pageLinks(context, '/audit', texts, before, next)}`
  return { title: t`Audit log`, content }
}

/** Returns the names of keys and endpoints by ID, as far as the person may see them. */
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

// --- The filter ---

type AuditFilter = Pick<AuditQuery, 'action' | 'actor' | 'subjectId'>

const ACTOR_MAX = 200

const FIELDS: readonly FilterField<AuditFilter>[] = [
  {
    name: 'action',
    label: (t) => t`Action`,
    choices: ({ t }) => AUDIT_ACTIONS.map((action) => ({ value: action, text: ACTIONS[action](t) })),
    read: (text) => AUDIT_ACTIONS.filter((action) => action === text).map((action) => ({ action })),
  },
  {
    name: 'actor',
    label: (t) => t`Actor`,
    attributes: { autocomplete: 'off', size: 18 },
    read: (actor) => (isStorable(actor) && [...actor].length <= ACTOR_MAX ? [{ actor }] : []),
  },
  // Only set by links, because a select of all keys would be unbounded.
  { name: 'subject', read: (text) => (readId(text) === '' ? [] : [{ subjectId: text }]) },
]

// --- Entries ---

/** Reads the newest audit entries of a subject. */
export function recentChanges(
  { settings, access }: Pick<Context, 'settings' | 'access'>,
  subjectId: string,
): Promise<Page<AuditEntry>> {
  return settings.audit.list(access.organizationId, { subjectId, limit: 10 })
}

/** Reads the latest rotation of an endpoint's signing secret. */
export async function lastRotation(
  { settings, access }: Pick<Context, 'settings' | 'access'>,
  subjectId: string,
): Promise<AuditEntry | undefined> {
  const filter = { subjectId, action: 'endpoint.secret_rotated', limit: 1 } as const
  return (await settings.audit.list(access.organizationId, filter)).data[0]
}

/** Renders the newest audit entries of a subject, or nothing if the person may not see the audit log. */
export async function auditOf(context: Context, subjectId: string): Promise<Content> {
  const { access, t, link } = context
  if (!access.can('audit:read')) return null
  const { data, next } = await recentChanges(context, subjectId)
  if (data.length === 0) return null
  return html`<h2 id="changes">${t`Audit log`}</h2>
${entryTable(context, data, null)}
${next !== null && html`<p><a href="${link('/audit', { subject: subjectId })}">${t`View all entries`}</a></p>`}`
}

/**
 * Renders audit entries, newest first.
 *
 * @param names names of subjects by ID; `null` on a page about a single subject
 */
function entryTable(
  context: Context,
  entries: readonly AuditEntry[],
  names: ReadonlyMap<string, string> | null,
): Html {
  const { t, format } = context
  const columns: readonly Column<AuditEntry>[] = [
    { head: t`Action`, cell: (entry) => sentence(context, entry, names) },
    { head: t`Actor`, width: 'large', cell: ({ actor }) => actor ?? t`System` },
    { head: t`Time`, width: 'large', cell: ({ at }) => format.time(at) },
  ]
  return table(
    t`Audit log`,
    columns.map((column) => ({ ...column, isHeadShown: false })),
    entries,
    'ba-table ba-lines ba-log',
  )
}

/** The actions' texts, to which {@link sentence} adds the subject. */
const ACTIONS: Readonly<Record<AuditAction, (t: Texts) => string>> = {
  'api_key.created': (t) => t`Created API key`,
  'api_key.imported': (t) => t`Imported API key`,
  'api_key.updated': (t) => t`Renamed API key`,
  'api_key.revoked': (t) => t`Revoked API key`,
  'api_key.rotated': (t) => t`Rotated API key`,
  'rate_limit.set': (t) => t`Changed rate limit`,
  'endpoint.registered': (t) => t`Created endpoint`,
  'endpoint.updated': (t) => t`Updated endpoint`,
  'endpoint.paused': (t) => t`Paused endpoint`,
  'endpoint.resumed': (t) => t`Resumed endpoint`,
  'endpoint.disabled': (t) => t`Disabled endpoint`,
  'endpoint.enabled': (t) => t`Enabled endpoint`,
  'endpoint.removed': (t) => t`Deleted endpoint`,
  'endpoint.secret_rotated': (t) => t`Rotated signing secret`,
  'endpoint.test_sent': (t) => t`Sent test event`,
  'endpoint.backfilled': (t) => t`Backfilled endpoint`,
  'delivery.redelivered': (t) => t`Resent delivery`,
  'deliveries.recovered': (t) => t`Resent failed deliveries`,
  'delivery.cancelled': (t) => t`Cancelled delivery`,
  'events.purged': (t) => t`Deleted old events`,
  'payment.reversed': (t) => t`Reversed payment`,
}

/** Renders an entry as a sentence: `Created API key “Website”`, `Sent test event “Billing” (invoice.paid)`. */
function sentence(context: Context, entry: AuditEntry, names: ReadonlyMap<string, string> | null): Content {
  const { t, link } = context
  const { action, details, subjectId } = entry
  const name = typeof details.name === 'string' && t`“${details.name}”`
  const isEvent = action === 'delivery.redelivered' && details.eventId !== undefined
  const text = isEvent ? t`Resent event` : (ACTIONS[action]?.(t) ?? action)
  const more = detailText(t, action, details)
  const rest = more !== '' && ` (${more})`
  if (names === null) return [text, name && ` ${name}`, rest]
  const isOther = details.name !== undefined && details.name !== names.get(subjectId)
  const subject = subjectOf(context, entry, names)
  return html`${text} ${subject}${isOther && name && ` (${name})`}${rest}${subject && html` ${quietLink(link('/audit', { subject: subjectId }), t`Filter`)}`}`
}

/** Formats an entry's details, which are names and numbers but never secrets. */
function detailText(t: Texts, action: AuditAction, details: AuditEntry['details']): string {
  const { type, fields, recovered, events, overlapMs } = details
  if (action === 'endpoint.updated' && Array.isArray(fields))
    return fields.map((field) => choiceLabel(t, String(field))).join(', ')
  if (action === 'endpoint.test_sent' && typeof type === 'string') return type
  if (action === 'deliveries.recovered' && typeof recovered === 'number') {
    return t.count(recovered, '1 delivery', '{0} deliveries')
  }
  if (action === 'endpoint.backfilled' && typeof events === 'number')
    return t.count(events, '1 event', '{0} events')
  if (action === 'events.purged' && typeof events === 'number')
    return t.count(events, '1 event', '{0} events')
  if (overlapMs === 0) return t`expired immediately`
  if (typeof overlapMs === 'number') {
    return t.count(Math.round(overlapMs / 3_600_000), '1-hour overlap', '{0}-hour overlap')
  }
  return ''
}

function subjectOf(
  { t, link, access }: Context,
  { subjectId }: AuditEntry,
  names: ReadonlyMap<string, string>,
): Content {
  const [kind] = subjectId.split('_', 1)
  // A Map, because the subject may be an organization with the ID `toString`.
  const paths = new Map<string | undefined, readonly [path: string, isSeen: boolean]>([
    ['key', ['/keys', access.can('keys:read')]],
    ['we', ['/endpoints', access.can('endpoints:read')]],
    ['dlv', ['/deliveries', access.can('deliveries:read')]],
    ['evt', ['/events', access.can('deliveries:read')]],
  ])
  const [path, isSeen] = paths.get(kind) ?? []
  if (path === undefined) return null
  const name = names.get(subjectId)
  const id = name === undefined ? html`<code>${subjectId}</code>` : t`“${name}”`
  return html`${isSeen && /^\w{1,64}$/.test(subjectId) ? html`<a href="${link(`${path}/${subjectId}`)}">${id}</a>` : id}`
}
