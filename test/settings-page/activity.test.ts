import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import type { Context } from '../../lib/settings-page/context.ts'
import { createFormat } from '../../lib/settings-page/format.ts'
import { toMarkup } from '../../lib/settings-page/html.ts'
import { errorRate } from '../../lib/settings-page/screens/activity.ts'
import { scaleOf, sparkline, stackedChart } from '../../lib/settings-page/views/chart.ts'
import { ATTEMPT_CLASSES, type AttemptClass } from '../../lib/webhooks/activity.ts'
import { lastFailure, publishMany, success, writeResults } from '../contract/delivering.ts'
import { createTenant, type Tenant } from '../contract/tenant.ts'
import { claim, publish, record } from '../settings/_stores.ts'
import { checkMarkup } from './_markup.ts'
import { EVERYTHING, ORGANIZATION, setUp, type Under } from './_page.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOW = Date.parse('2026-11-10T12:34:56Z')

test('a stacked chart stands on a scale that is even, and shows every failure', () => {
  const bars = [
    { at: '2026-11-10T10:00:00.000Z', delivered: 3, failed: 1 },
    { at: '2026-11-10T11:00:00.000Z', delivered: 0, failed: 0 },
    { at: '2026-11-10T12:00:00.000Z', delivered: 1, failed: 0 },
  ]
  assert.equal(scaleOf(bars), 4)
  const chart = toMarkup(
    stackedChart(
      bars,
      { summary: 'Two "hours"', scale: ['4', '2', '0'], times: ['10:00'] },
      ({ at, failed }, isFailed) => ({
        href: `/${at.slice(11, 13)}`,
        text: isFailed ? `${failed} failed` : '',
      }),
    ),
  )
  checkMarkup(chart, 'chart')
  assert.match(
    chart,
    /class="ba-hidden">Two &quot;hours&quot;<\/p>.*aria-hidden="true" viewBox="0 0 12 100"/s,
  )
  assert.match(chart, /class="ba-good" d="M2 100V25M10 100V75"/)
  assert.match(chart, /class="ba-bad" d="M2 25V0"/)
  // Every part of a bar is a link for pointers, with the space above the failures.
  assert.deepEqual(
    [...chart.matchAll(/<a href="(.+?)" tabindex="-1"><title>(.*?)<\/title><path d="(.+?)"\/><\/a>/g)].map(
      (link) => link.slice(1),
    ),
    [
      ['/10', '', 'M2 100V25'],
      ['/10', '1 failed', 'M2 25V0'],
      ['/12', '', 'M10 100V0'],
    ],
  )
  // One of 9,999 is less than a pixel: the bar stays on the scale.
  const many = [{ at: '2026-11-10T10:00:00.000Z', delivered: 9_999, failed: 1 }]
  assert.equal(scaleOf(many), 10_000)
  assert.match(toMarkup(sparkline(many)), /class="ba-good" d="M2 24V1".*class="ba-bad" d="M2 1V0"/)
  assert.deepEqual([[], many].map(scaleOf), [2, 10_000])
})

/** An organization with deliveries of last month, of yesterday and of today, when the store's clock stands still. */
async function setUpBusy(): Promise<Under & { readonly tenant: Tenant }> {
  let now = NOW
  const store = createMemoryStore({ clock: () => now })
  const under = { store: () => store, secondStore: () => store, events: () => [], letTimePass() {} }
  const tenant = await createTenant(under)
  const page = setUp({ store, clock: () => NOW, settings: { clock: () => NOW } })
  page.access = { ...EVERYTHING, organizationId: tenant.id }
  const { id } = await tenant.insertEndpoint({ description: 'Billing' })
  await tenant.insertEndpoint({ description: 'Quiet', types: ['lead.created'] })
  for (const [agoMs, delivered, failed] of [
    [20 * DAY_MS, 5, 0],
    [25 * HOUR_MS, 1, 4],
    [0, 3, 1],
  ] as const) {
    now = NOW - agoMs
    await publishMany(tenant, delivered + failed)
    const claimed = await claim(store, tenant.id)
    assert.ok(claimed.every(({ endpointId }) => endpointId === id))
    await writeResults(
      tenant,
      claimed.map((delivery, index) => (index < delivered ? success(delivery) : lastFailure(delivery))),
    )
  }
  return Object.assign(page, { tenant })
}

test('the overview shows delivered and failed deliveries by hour and by day, in a picture and a table', async () => {
  const under = await setUpBusy()
  const day = await under.get('/')
  checkMarkup(day.text, '/')
  assert.match(
    day.text,
    />Deliveries per hour \(UTC\), Nov 9, 13:00 – Nov 10, 13:00: 3 delivered, 1 failed<.*viewBox="0 0 96 100"/s,
  )
  assert.match(
    day.words,
    /Pending deliveries : 0 · Failed deliveries : 5 .*Error rate 25% Failed attempts 1 .*Nov 10, 12:00 3 1 25% Nov 10, 11:00 0 0 – /,
  )
  const week = await under.get('/?activity=7d')
  assert.match(week.text, />Deliveries per day \(UTC\), Nov 4, 00:00[^<]*: 4 delivered, 5 failed</)
  assert.match(week.words, /Error rate 55\.6% Failed attempts 5 .*Nov 10 3 1 25% Nov 9 1 4 80%/)
  assert.match(week.text, /href="[^"]*\?activity=7d" aria-current="true"/)
  const month = await under.get('/?activity=30d')
  assert.match(month.text, /9 delivered, 5 failed<.*viewBox="0 0 120 100"/s)
  assert.match((await under.get('/?activity=constructor')).text, /viewBox="0 0 96 100"/)
})

test("a chart's bars and its table link to the deliveries that they count", async () => {
  const under = await setUpBusy()
  const rowsOf = async (href: string | undefined): Promise<number> => {
    const { text } = await under.get((href ?? '').replaceAll('&amp;', '&').replace('/settings/developer', ''))
    return text.split('<tr><th scope="row">').length - 1
  }
  const { text } = await under.get('/?activity=7d')
  const bars = [...text.matchAll(/<a href="([^"]+)" tabindex="-1"><title>Nov (\d+): (\d+) (\w+)<\/title>/g)]
  assert.deepEqual(
    bars.map(([, , day, count, word]) => `${day}: ${count} ${word}`),
    ['9: 1 delivered', '9: 4 failed', '10: 3 delivered', '10: 1 failed'],
  )
  for (const [, href, , count] of bars) assert.equal(await rowsOf(href), Number(count), href)
  // Keyboards have the same links in the table.
  const hrefs = [...text.matchAll(/href="([^"]+)">\d+<\/a><\/td>/g)].map(([, href]) => href)
  assert.deepEqual(await Promise.all(hrefs.map(rowsOf)), [1, 4])

  const filter = '/deliveries?state=failed&amp;period=2026-11-10T12'
  const hour = `<a href="/settings/developer${filter}" tabindex="-1"><title>Nov 10, 12:00: 1 failed</title>`
  assert.ok((await under.get('/')).text.includes(hour))
  assert.equal(await rowsOf(filter), 1)
  const { text: list } = await under.get(filter.replace('&amp;', '&'))
  assert.match(list, /value="custom" selected.*value="2026-11-10T12:00".*value="2026-11-10T13:00"/s)
  for (const wrong of ['2026-13-40', '0000-01-01', '2026-11-10T99'])
    assert.equal((await under.get(`/deliveries?period=${wrong}`)).status, 200, wrong)
})

test('the numbers beside an endpoint that fails say so, even if its only delivery is still retried', async () => {
  const under = await setUpBusy()
  const { id } = await under.tenant.insertEndpoint({ description: 'Down', types: ['invoice.paid'] })
  await under.tenant.publish({ type: 'invoice.paid' })
  await record(under.store, await claim(under.store, under.tenant.id), 'retry')
  assert.match((await under.get('/')).words, /Down Failing 100% /)
  assert.match((await under.get('/endpoints')).words, /Down invoice\.paid 100% \S+ Failing/)
  const { text, words } = await under.get(`/endpoints/${id}`)
  assert.match(words, /The last attempt failed .*Error rate 100% Failed attempts 1 /)
  assert.match(words, /Failed attempts are retried automatically\. View pending deliveries /)
  assert.ok(text.includes(`/deliveries?endpoint=${id}&amp;state=pending">View pending deliveries<`))
  for (const [path, none] of [
    [`/endpoints/${id}?state=failed`, 'No failed deliveries.'],
    // Others may have failed.
    [`/deliveries?endpoint=${id}&state=failed`, 'No deliveries match these filters.'],
  ] as const) {
    const { words } = await under.get(path)
    assert.ok(words.includes(`${none} Deliveries that are still retried are under Pending.`), path)
  }
  assert.match(text, /<h1 tabindex="-1">Down <b class="ba-badge ba-bad">Failing<\/b><\/h1>/)
  await under.settings.endpoints.pause(under.tenant.id, id)
  const paused = await under.get(`/endpoints/${id}`)
  assert.match(paused.words, /Pending deliveries are sent when you resume the endpoint\./)
  assert.doesNotMatch(paused.words, /retried automatically/)
})

test('the overview lists endpoints in order of trouble, with the rate and the bars of each', async () => {
  const under = await setUpBusy()
  const { words, text } = await under.get('/')
  assert.match(words, /Endpoint Status Error rate Last 24 hours Billing Failing 25% Quiet Enabled –/)
  assert.match(
    text,
    /class="ba-spark" aria-hidden="true" viewBox="0 0 96 24"[^>]*><path class="ba-good" d="M94 24V6"/,
  )
})

test('an endpoint shows its own activity first, and its deliveries by state', async () => {
  const under = await setUpBusy()
  const [quiet, billing] = (await under.settings.endpoints.list(under.tenant.id)).map(({ id }) => id)
  const { words, text } = await under.get(`/endpoints/${billing}`)
  assert.match(
    words,
    /Error rate 25% .*Deliveries Resend 5 failed deliveries All Failed .*Settings .*Danger zone/,
  )
  assert.match(
    text,
    /href="[^"]*\/deliveries\/recover\?endpoint=we_\w+" data-dialog>Resend 5 failed deliveries/,
  )
  assert.match((await under.get(`/endpoints/${quiet}`)).words, /No deliveries in this period\./)
  const failed = await under.get(`/endpoints/${billing}?state=failed`)
  assert.ok(failed.text.includes(`/endpoints/${billing}?activity=7d&amp;state=failed"`))
  assert.equal(failed.text.match(/ba-badge ba-bad">Failed<\/b><\/td>/g)?.length, 5)
  const none = await under.get(`/endpoints/${billing}?state=cancelled`)
  assert.match(none.words, /No deliveries match this filter\./)
})

test('activity is shown to persons who may see deliveries, and URLs to those who may see endpoints', async () => {
  const under = await setUpBusy()
  const organizationId = under.tenant.id
  under.access = {
    ...EVERYTHING,
    organizationId,
    can: ['keys:read', 'endpoints:read', 'audit:read', 'requests:read'],
  }
  assert.doesNotMatch((await under.get('/')).text, /<svg|Error rate/)
  under.access = { ...EVERYTHING, organizationId, can: ['deliveries:read'] }
  const { text } = await under.get('/')
  assert.match(text, /<svg/)
  assert.doesNotMatch(text, /hooks\.example|\/endpoints\//)
})

test('the page of a month with many endpoints stays within 30 kB', async (t) => {
  const under = setUp()
  for (let index = 0; index < 20; index++) {
    const url = `https://hooks.example.com/${'path/'.repeat(8)}${index}`
    await under.settings.endpoints.register(ORGANIZATION, { url })
  }
  for (let event = 0; event < 20; event++) await publish(under.store, ORGANIZATION)
  for (const day of Array.from({ length: 30 }, (_, index) => index)) {
    for (const outcome of ['delivered', 'failed'] as const) {
      const agoMs = day * DAY_MS
      await record(under.store, await claim(under.store, ORGANIZATION, 200), outcome, {
        startedAgoMs: agoMs + 30,
        endedAgoMs: agoMs,
      })
      await publish(under.store, ORGANIZATION)
      for (let event = 0; event < 9; event++) await publish(under.store, ORGANIZATION)
    }
  }
  const { text, words } = await under.get('/?activity=30d')
  checkMarkup(text, '/')
  assert.match(words, /10 more endpoints/)
  assert.ok(text.match(/<tr>/g)?.length === 30 + 10 + 2, `${text.match(/<tr>/g)?.length} rows`)
  t.diagnostic(`${Buffer.byteLength(text)} bytes`)
  assert.ok(Buffer.byteLength(text) <= 30_000, `${Buffer.byteLength(text)} bytes`)
})

test('an error rate is rounded to the nearest tenth of a percent, and says 0 or 100 % only if that is exact', () => {
  const format = createFormat('en', 'UTC')
  const none = Object.fromEntries(ATTEMPT_CLASSES.map((each) => [each, 0])) as Record<AttemptClass, number>
  const shown = (failed: number, all: number): string =>
    errorRate({ format } as Context, {
      attempts: all + 2,
      results: { ...none, interrupted: 2, '2xx': all - failed },
    })
  const rates = [
    [2, 9, '22.2%'],
    [10, 11, '90.9%'],
    [4, 12, '33.3%'],
    [2, 3, '66.7%'],
    [0, 9, '0%'],
    [9, 9, '100%'],
    [1, 9_999, '0.1%'],
    [9_998, 9_999, '99.9%'],
    [0, 0, '–'],
  ] as const
  for (const [failed, all, expected] of rates)
    assert.equal(shown(failed, all), expected, `${failed} of ${all}`)
})
