import type { Activity, EndpointActivity } from '../../settings/activity.ts'
import type { ActivityInterval } from '../../webhooks/activity.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization, TABLE_FLAGS } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration, formatMoment, parsePast } from '../durations.ts'
import { choice, parsed, text } from '../flags.ts'
import { formatBounded, formatCount } from '../progress.ts'
import { type Column, formatDetails, formatTable } from '../table.ts'

/** Shows an organization's deliveries and attempts over time. */
export const activity: Command = defineCommand({
  name: 'activity',
  summary: "shows an organization's deliveries and attempts by time and endpoint",
  about:
    'Covers the last 24 hours, or any period of the last 35 days, in full hours. Pending and failed deliveries are the current ones. Endpoints with problems come first. The durations p50 and p95 are estimates: the true value is between half and double.',
  flags: {
    organization,
    endpoint: text('ID', 'only of this endpoint'),
    since: parsed('WHEN', 'from: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z; default: 24h', parsePast),
    until: parsed('WHEN', 'up to; default: now', parsePast),
    interval: choice<ActivityInterval>('INTERVAL', 'hour or day; default: hour up to two days', [
      'hour',
      'day',
    ]),
    ...TABLE_FLAGS,
  },
  examples: {
    'was yesterday good?': 'business-api-kit activity --organization org_42',
    'the last week by day, for a program':
      'business-api-kit activity --organization org_42 --since 7d --json',
  },
  async run({ organization: owner, endpoint, since, until, interval, wide }, session) {
    const query = { endpointId: endpoint, from: since, to: until, interval }
    const shown = await withSettings(session, (settings) => settings.activity(owner, query))
    await session.print(shown, () => describeActivity(shown, session.width(wide)))
  },
})

function describeActivity({ totals, series, endpoints, ...rest }: Activity, width: number): string {
  const results = Object.entries(totals.results).filter(([, count]) => count > 0)
  const details = [
    ['Period', `${formatMoment(rest.from)} to ${formatMoment(rest.to)}, by ${rest.interval}`],
    ['Delivered', `${formatCount(totals.delivered)}${formatShare(totals.successRate)}`],
    ['Failed', formatCount(totals.failed)],
    ['Attempts', [formatCount(totals.attempts), ...results.map(formatResult)].join(', ')],
    ['Response time', totals.p50Ms === null ? null : formatDurations(totals)],
    ['Pending deliveries', formatBounded(rest.pendingNow)],
    ['Failed deliveries', formatBounded(rest.failedNow)],
    ['API keys used', formatCount(rest.apiKeysInUse)],
    ['Delivered over time', sparkline(series.map(({ delivered }) => delivered))],
    ['Failed over time', totals.failed === 0 ? null : sparkline(series.map(({ failed }) => failed))],
  ] as const
  const table = endpoints.length === 0 ? '' : `\n${formatTable(COLUMNS, endpoints, width)}`
  return formatDetails(details, width) + table
}

const COLUMNS: readonly Column<EndpointActivity>[] = [
  { title: 'ENDPOINT', value: ({ endpointId }) => endpointId },
  { title: 'STATE', value: ({ state, failures }) => (failures > 0 ? `${state}, failing` : state) },
  { title: 'DELIVERED', value: ({ delivered }) => formatCount(delivered) },
  { title: 'FAILED', value: ({ failed }) => formatCount(failed) },
  { title: 'ATTEMPTS', value: ({ attempts }) => formatCount(attempts) },
  { title: 'RESPONSE TIME', value: formatDurations },
  { title: 'URL', value: ({ url }) => url },
]

/** Returns something like `, 99.5 %`. Doesn't round up to 100 % because that would hide failures. */
function formatShare(share: number | null): string {
  return share === null ? '' : `, ${Math.floor(share * 1000) / 10} %`
}

/** Returns something like `2 timeout` or `1 not allowed`. */
function formatResult([name, count]: readonly [string, number]): string {
  return `${formatCount(count)} ${name.replace('_', ' ')}`
}

function formatDurations({ p50Ms, p95Ms }: Pick<EndpointActivity, 'p50Ms' | 'p95Ms'>): string {
  if (p50Ms === null || p95Ms === null) return ''
  return `p50 about ${formatDuration(p50Ms)}, p95 about ${formatDuration(p95Ms)}`
}

const BARS = '▁▂▃▄▅▆▇█'

/** Draws counts as bars. Zero is a dot. Even the smallest count gets a bar. */
function sparkline(counts: readonly number[]): string {
  const max = Math.max(...counts)
  return counts
    .map((count) => (count === 0 ? '·' : BARS[Math.ceil((count / max) * BARS.length) - 1]))
    .join('')
}
