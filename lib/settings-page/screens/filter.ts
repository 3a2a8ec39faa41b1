import type { Context } from '../context.ts'
import { isFiltered } from '../form-values.ts'
import { type Attributes, type Content, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { type Choice, filterForm, input, select } from '../views/form.ts'

// The filter of a log. It is stored in the URL.

/** A filter field other than the period. It is a select if it has choices. */
export interface FilterField<Filter, About = unknown> {
  /** The name of the URL parameter and form field. */
  readonly name: string
  /** If absent, the form hides the field, which only links set. */
  label?(t: Texts): string
  choices?(context: Context, about: About): readonly Choice[]
  readonly attributes?: Attributes
  /** Parses the parameter. Returns an empty array for an invalid value, which is then ignored. */
  read(text: string, context: Context): readonly Filter[]
}

/** A filter and its texts in the URL and forms. */
export interface ShownFilter<Filter> {
  readonly texts: Readonly<Record<string, string>>
  readonly filter: Filter & { readonly since?: Date; readonly until?: Date }
}

const HOUR_MS = 60 * 60 * 1000
/** A Map, because the parameter may be `toString`. */
const PERIODS: ReadonlyMap<string, number> = new Map([
  ['1h', HOUR_MS],
  ['24h', 24 * HOUR_MS],
  ['7d', 7 * 24 * HOUR_MS],
])
/** The period from `from` to `to`. */
const CUSTOM = 'custom'

/** Returns the parameters of the hour or day that starts at a time, which is shorter than a custom period. */
export function periodAt(iso: string, unit: 'hour' | 'day'): { readonly period: string } {
  return { period: iso.slice(0, unit === 'hour' ? 13 : 10) }
}

/** Returns the parameters of the period since a time, in whole minutes. */
export function periodSince(iso: string): { readonly period: string; readonly from: string } {
  return { period: CUSTOM, from: toInput(Date.parse(iso)) }
}

/** Replaces an hour or a day by a custom period. */
function readPeriod(values: { get(name: string): string | null }): readonly string[] {
  const [period = '', from = '', to = ''] = ['period', 'from', 'to'].map((name) => values.get(name)?.trim())
  if (!/^\d{4}-\d\d-\d\d(T\d\d)?$/.test(period)) return [period, from, to]
  const [lengthMs, start] = period.length > 10 ? [HOUR_MS, `${period}:00Z`] : [24 * HOUR_MS, period]
  const begin = Date.parse(start)
  return Number.isNaN(begin) || begin < 0 ? [] : [CUSTOM, toInput(begin), toInput(begin + lengthMs)]
}

/** Formats a time as the value of a datetime-local input, in UTC. */
function toInput(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16)
}

/** Parses the filter of a URL or form. */
export function readFilter<Filter extends object>(
  fields: readonly FilterField<Filter, never>[],
  values: { get(name: string): string | null },
  context: Context,
): ShownFilter<Filter> {
  const texts: Record<string, string> = {}
  const parts: object[] = []
  for (const { name, read } of fields) {
    const text = (values.get(name) ?? '').trim()
    if (text === '' || read(text, context).length === 0) continue
    texts[name] = text
    parts.push(...read(text, context))
  }
  const [period = '', from = '', to = ''] = readPeriod(values)
  const [since, until] = [momentOf(from), momentOf(to)]
  const ms = PERIODS.get(period)
  if (since !== null) texts.from = from
  if (until !== null) texts.to = to
  if (ms !== undefined || period === CUSTOM) texts.period = period
  if (ms !== undefined) parts.push({ since: new Date(context.now - ms) })
  if (period === CUSTOM) parts.push({ ...(since && { since }), ...(until && { until }) })
  return { texts, filter: Object.assign({}, ...parts) }
}

/** A list as the person left it. */
export interface Back {
  readonly href: string
  /** The list's query, which a record's links to itself repeat as `from`. */
  readonly from: string | undefined
}

/** Returns the list with the filter and page in `from`, otherwise in the referrer. */
export function backTo(context: Context, path: string, fields: readonly FilterField<object, never>[]): Back {
  const { query, referrer, link } = context
  const [page, search] = referrer.split('?', 2)
  const values = new URLSearchParams(query.get('from') ?? (page === link(path) ? search : ''))
  const { texts } = readFilter(fields, values, context)
  const href = link(path, { ...texts, before: values.get('before') })
  return { href, from: href.split('?', 2)[1] }
}

/** Renders the filter form: selects first, then the period and the other fields. */
export function logFilterForm<About>(
  context: Context,
  path: string,
  fields: readonly FilterField<object, About>[],
  texts: Readonly<Record<string, string>>,
  about: About,
  more: Content = null,
): Html {
  const { t, link } = context
  const fieldOf = ({ name, label, choices, attributes: own }: FilterField<object, About>): Content => {
    if (!label) return null
    const field = { name, label: label(t) }
    const text = texts[name] ?? ''
    if (!choices) return input(field, { value: text, spellcheck: 'false', ...own })
    return select(field, [{ value: '', text: t`All` }, ...choices(context, about)], text)
  }
  return filterForm(
    t,
    link(path),
    isFiltered(texts),
    html`${fields.filter(({ choices }) => choices).map(fieldOf)}
${periodFields(t, texts, path === '/deliveries' ? t`Created` : t`Time`)}
${fields.filter(({ choices }) => !choices).map(fieldOf)}${more}`,
  )
}

/** Renders the period fields. The stylesheet hides the custom range unless it is selected. */
function periodFields(
  t: Texts,
  { period = '', from = '', to = '' }: Readonly<Record<string, string>>,
  label: string,
): Html {
  return html`${select(
    { name: 'period', label },
    [
      { value: '', text: t`All` },
      { value: '1h', text: t`Last hour` },
      { value: '24h', text: t`Last 24 hours` },
      { value: '7d', text: t`Last 7 days` },
      { value: CUSTOM, text: t`Custom range (UTC)` },
    ],
    period,
  )}
<div class="ba-filters">${input({ name: 'from', label: t`From` }, { type: 'datetime-local', value: from })}
${input({ name: 'to', label: t`To` }, { type: 'datetime-local', value: to })}</div>`
}

/** Parses the value of a datetime-local input as UTC. */
function momentOf(text: string): Date | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return null
  const time = Date.parse(`${text}Z`)
  return Number.isNaN(time) || time < 0 ? null : new Date(time)
}
