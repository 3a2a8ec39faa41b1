// Prints a weekly email for an organization's administrators: delivered and failed webhooks, and the endpoints with
// problems. Run it from your scheduler for each organization, and send the output.
//
//   DATABASE_URL=postgres://… npx tsx examples/weekly-email.ts ORGANIZATION_ID

import { createPostgresStore } from 'business-api-kit/postgres'
import { type Activity, createDeveloperSettings, type EndpointActivity } from 'business-api-kit/settings'

const { DATABASE_URL } = process.env
const [organizationId] = process.argv.slice(2)
if (!DATABASE_URL || !organizationId) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database, and give the id of an organization as the argument',
  )
  process.exit(2)
}

const WEEK_MS = 7 * 24 * 3_600_000

const store = createPostgresStore(DATABASE_URL)
const settings = createDeveloperSettings(store)
const week = await settings.activity(organizationId, {
  from: new Date(Date.now() - WEEK_MS),
  interval: 'day',
})
console.log(describeWeek(week))
await store.close()

function describeWeek({ totals, series, endpoints, failedNow }: Activity): string {
  const worst = series.toSorted((one, other) => other.failed - one.failed)[0]
  const troubled = endpoints.filter(
    ({ state, failures }) => state === 'disabled' || (state !== 'removed' && failures > 0),
  )
  return [
    `Webhooks from ${day(series[0]?.at)} to ${day(series.at(-1)?.at)}`,
    '',
    `Delivered: ${totals.delivered}${totals.successRate === null ? '' : ` (${Math.floor(totals.successRate * 1000) / 10} %)`}`,
    `Failed: ${totals.failed}${worst && worst.failed > 0 ? `, most of them on ${day(worst.at)}` : ''}`,
    ...(totals.p95Ms === null ? [] : [`95 % of the responses came within about ${totals.p95Ms} ms`]),
    ...(failedNow > 0 ? [`Failed deliveries that can be sent again: ${failedNow}`] : []),
    '',
    ...(troubled.length === 0 ? ['Every endpoint works.'] : troubled.map(describeEndpoint)),
  ].join('\n')
}

function describeEndpoint({ url, state, failures, results }: EndpointActivity): string {
  const [reason] = Object.entries(results)
    .filter(([name, count]) => name !== '2xx' && count > 0)
    .toSorted(([, one], [, other]) => other - one)
  const what = state === 'disabled' ? 'is disabled' : `fails (failed attempts in a row: ${failures})`
  return `${new URL(url).host} ${what}${reason ? `, mostly ${reason[0].replace('_', ' ')}` : ''}`
}

function day(at = ''): string {
  return at.slice(0, 10)
}
