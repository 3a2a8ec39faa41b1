import type {
  Activity,
  ActivityNumbers,
  EndpointActivity,
  IntervalActivity,
} from '../../settings/activity.ts'
import type { EndedDeliveries } from '../../webhooks/activity.ts'
import type { Context } from '../context.ts'
import { attributes, type Content, type Html, html } from '../html.ts'
import { scaleOf, sparkline, stackedChart } from '../views/chart.ts'
import { badge } from '../views/elements.ts'
import { lines, table } from '../views/table.ts'
import { endpointState, shortName } from './endpoint-words.ts'
import { periodAt } from './filter.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** The chart periods: the text, the number of days, and how many bars lie between two labels. */
const PERIODS = {
  '24h': { text: (t: Context['t']) => t`Last 24 hours`, days: 1, bars: 6 },
  '7d': { text: (t: Context['t']) => t`Last 7 days`, days: 7, bars: 1 },
  '30d': { text: (t: Context['t']) => t`Last 30 days`, days: 30, bars: 6 },
} as const

type Period = keyof typeof PERIODS

function periodOf({ query }: Pick<Context, 'query'>): Period {
  const given = query.get('activity') ?? ''
  return Object.hasOwn(PERIODS, given) ? (given as Period) : '24h'
}

/** Returns the selected period as text. */
export function periodText(context: Context): string {
  return PERIODS[periodOf(context)].text(context.t)
}

/**
 * Reads the activity of the selected period: 24 hours, or whole UTC days including today. Returns `null` if the person may not see
 * deliveries.
 */
export async function readActivity(context: Context, endpointId?: string): Promise<Activity | null> {
  const { settings, access, now } = context
  if (!access.can('deliveries:read')) return null
  const { days } = PERIODS[periodOf(context)]
  return settings.activity(access.organizationId, {
    ...(endpointId !== undefined && { endpointId }),
    ...(days > 1 && { from: new Date((Math.floor(now / DAY_MS) - days + 1) * DAY_MS), interval: 'day' }),
  })
}

/**
 * Renders the numbers, the chart and the chart's table.
 *
 * @param path the page's path, for the links to other periods
 * @param filter the query of links to deliveries
 */
export function activitySection(
  context: Context,
  activity: Activity,
  path: string,
  filter: Readonly<Record<string, string>> = {},
): Html {
  const { t, link, query } = context
  const chosen = periodOf(context)
  // An endpoint's page also has a list by status.
  const state = query.get('state')
  const periods = Object.entries(PERIODS).map(
    ([name, { text }]) =>
      html`<a${attributes({ href: link(path, { activity: name, state }), 'aria-current': name === chosen ? 'true' : null })}>${text(t)}</a>`,
  )
  return html`${queueNow(context, activity, filter)}
<nav class="ba-periods" aria-label="${t`Period`}">${periods}</nav>
${numbers(context, activity, filter)}
${chart(context, activity, filter)}`
}

/** Renders numbers side by side. `null` entries are skipped. */
export function figures(entries: readonly (readonly [name: string, value: Content] | null)[]): Html {
  return html`<dl class="ba-figures">${entries.map(
    (entry) => entry && html`<div><dt>${entry[0]}</dt><dd>${entry[1]}</dd></div>`,
  )}</dl>`
}

function numbers(
  context: Context,
  { totals, apiKeysInUse }: Activity,
  filter: Readonly<Record<string, string>>,
): Html {
  const { t, link, access, format } = context
  const duration = (ms: number | null): string => (ms === null ? '–' : format.duration(ms))
  return figures([
    [t`Error rate`, errorRate(context, totals)],
    [t`Failed attempts`, format.number(failuresOf(totals))],
    [t`p50 duration`, duration(totals.p50Ms)],
    [t`p95 duration`, duration(totals.p95Ms)],
    filter.endpoint === undefined && access.can('keys:read')
      ? [t`API keys used`, html`<a href="${link('/keys')}">${format.number(apiKeysInUse)}</a>`]
      : null,
  ])
}

/** Renders the deliveries that are pending or failed now, whenever they were created. */
function queueNow(
  { t, link, format }: Context,
  { pendingNow, failedNow }: Activity,
  filter: Readonly<Record<string, string>>,
): Html {
  const part = (name: string, count: number, state: string): Html =>
    html`<a href="${link('/deliveries', { ...filter, state })}">${name}</a>: ${count > COUNT_MAX ? t`More than ${COUNT_MAX}` : format.number(count)}`
  return html`<p>${part(t`Pending deliveries`, pendingNow, 'pending')} · ${part(t`Failed deliveries`, failedNow, 'failed')}</p>`
}

/** Maximum exact count of the queue. The next number means more. */
const COUNT_MAX = 10_000

/** Returns the number of failed attempts. Those that we interrupted are no failures of an endpoint. */
function failuresOf({ attempts, results }: Attempted): number {
  return attempts - results['2xx'] - results.interrupted
}

type Attempted = Pick<ActivityNumbers, 'attempts' | 'results'>

/** Formats the fraction of attempts that failed; a dash if there was no attempt. Never 0 % or 100 % if that isn't exact. */
export function errorRate({ format }: Context, numbers: Attempted | undefined): string {
  if (!numbers) return '–'
  const [failed, all] = [failuresOf(numbers), numbers.attempts - numbers.results.interrupted]
  if (all === 0) return '–'
  if (failed === 0 || failed === all) return format.percent(failed / all)
  return format.percent(Math.min(999, Math.max(1, Math.round((failed / all) * 1000))) / 1000)
}

// --- The chart ---

function chart(context: Context, activity: Activity, filter: Readonly<Record<string, string>>): Html {
  const { t, format, link } = context
  const { series, interval, totals, from, to } = activity
  const isByHour = interval === 'hour'
  const { bars } = PERIODS[periodOf(context)]
  const top = scaleOf(series)
  const title = isByHour ? t`Deliveries per hour (UTC)` : t`Deliveries per day (UTC)`
  const unit = isByHour ? 'hour' : 'day'
  const nameOf = (at: string): string => format.interval(at, isByHour ? 'dayHour' : 'day')
  const hrefOf = (at: string, state?: string): string =>
    link('/deliveries', { ...filter, state, ...periodAt(at, interval) })
  const counts = t`${totals.delivered} delivered, ${totals.failed} failed`
  const columns = [
    {
      head: isByHour ? t`Hour` : t`Day`,
      cell: ({ at, attempts }: IntervalActivity) =>
        attempts === 0 ? nameOf(at) : html`<a href="${hrefOf(at)}">${nameOf(at)}</a>`,
    },
    { head: t`Delivered`, cell: ({ delivered }: IntervalActivity) => format.number(delivered) },
    {
      head: t`Failed`,
      cell: ({ at, failed }: IntervalActivity) =>
        failed === 0 ? '0' : html`<a href="${hrefOf(at, 'failed')}">${format.number(failed)}</a>`,
    },
    { head: t`Error rate`, cell: (each: IntervalActivity) => errorRate(context, each) },
  ]
  const hasAttempts = totals.attempts > 0
  return html`<figure class="ba-card ba-chart"><figcaption><strong>${title}</strong> ${badge('good', t`Delivered`)} ${badge('bad', t`Failed`)}</figcaption>
${stackedChart(
  series,
  {
    summary: `${title}, ${format.interval(from, 'dayHour')} – ${format.interval(to, 'dayHour')}: ${counts}`,
    scale: [format.number(top), format.number(top / 2), '0'],
    times: series.filter((_, index) => index % bars === 0).map(({ at }) => format.interval(at, unit)),
  },
  ({ at, delivered, failed }, isFailed) => ({
    href: hrefOf(at, isFailed ? 'failed' : 'delivered'),
    text: `${nameOf(at)}: ${isFailed ? t`${failed} failed` : t`${delivered} delivered`}`,
  }),
)}
<p class="ba-hint">${t`The error rate is the percentage of attempts that failed, including retries.`}</p>
${
  hasAttempts
    ? html`<details><summary>${t`Show as table`}</summary>${table(title, columns, series.toReversed())}</details>`
    : html`<p class="ba-hint">${t`No deliveries in this period.`}</p>`
}</figure>`
}

// --- Endpoints ---

const ENDPOINTS_MAX = 10

/** Renders the endpoints with error rate and sparkline, those with problems first. */
export function endpointsSection(context: Context, activity: Activity): Content {
  const { t, link, access } = context
  const present = activity.endpoints.filter(({ state }) => state !== 'removed')
  if (present.length === 0) return null
  const more = present.length - ENDPOINTS_MAX
  const stateOf = ({ state, failures }: EndpointActivity): Content =>
    state !== 'removed' && endpointState(t, { state, failures })
  return html`<h2>${t`Endpoints`}</h2>
${lines<EndpointActivity>(
  t`Endpoints`,
  [
    {
      head: t`Endpoint`,
      cell: ({ endpointId: id, description, url }) => {
        const name = shortName(access, { id, description: description ?? '', url })
        return access.can('endpoints:read') ? html`<a href="${link(`/endpoints/${id}`)}">${name}</a>` : name
      },
    },
    { head: t`Status`, width: 'small', cell: (endpoint) => stateOf(endpoint) },
    {
      head: t`Error rate`,
      isHeadShown: true,
      width: 'small',
      cell: (endpoint) => errorRate(context, endpoint),
    },
    { head: periodText(context), width: 'medium', cell: ({ series }) => sparkline(filled(activity, series)) },
  ],
  present.slice(0, ENDPOINTS_MAX),
)}
${more > 0 && access.can('endpoints:read') && html`<p><a href="${link('/endpoints')}">${t.count(more, '1 more endpoint', '{0} more endpoints')}</a></p>`}`
}

/** Returns an endpoint's series including intervals without ended deliveries. */
function filled(activity: Activity, series: readonly EndedDeliveries[]): readonly EndedDeliveries[] {
  const ended = new Map(series.map((each) => [each.at, each]))
  return activity.series.map(({ at }) => ended.get(at) ?? { at, delivered: 0, failed: 0 })
}
