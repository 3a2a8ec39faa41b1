import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BASE, EVERYTHING, ORGANIZATION, setUp } from './_page.ts'
import { seed } from './_seed.ts'

async function setUpSeeded() {
  const under = setUp()
  return Object.assign(under, { seeded: await seed(under.store, under.settings, ORGANIZATION) })
}

function entriesOf(text: string): number {
  return text.match(/<tr><th scope="row">/g)?.length ?? 0
}

test('GET /audit filters by action, actor, subject and time, all in the URL', async () => {
  const under = await setUpSeeded()
  const { endpoint } = under.seeded
  const counts = {
    '': 10,
    'action=endpoint.disabled': 1,
    'action=endpoint.registered': 4,
    'actor=grace%40example.com': 2,
    'actor=grace%40example.com&action=endpoint.disabled': 1,
    'actor=grace': 0,
    [`subject=${endpoint}`]: 1,
    [`subject=${endpoint}&action=endpoint.disabled`]: 0,
    'period=1h': 10,
    'period=custom&to=2020-01-01T00:00': 0,
    'period=custom&from=2020-01-01T00:00': 10,
    'action=nonsense&period=nonsense&subject=%3Cb%3E': 10,
  }
  for (const [query, count] of Object.entries(counts)) {
    const { status, text, words } = await under.get(`/audit?${query}`)
    assert.equal(status, 200, query)
    assert.equal(entriesOf(text), count, query)
    if (count === 0) assert.match(words, /No entries match these filters\. Clear filters/, query)
  }
})

test('GET /audit goes on to older entries by a link that keeps the filter', async () => {
  const under = setUp()
  for (const actor of ['ada', 'grace']) {
    const acting = { actor }
    for (let change = 0; change < 30; change++) {
      await under.settings.rateLimits.set(ORGANIZATION, { perSecond: 1 + change, burst: 1 }, acting)
    }
  }
  const first = await under.get('/audit?actor=ada&action=rate_limit.set')
  assert.equal(entriesOf(first.text), 30)
  assert.doesNotMatch(first.text, /Older|Newest/)
  const all = await under.get('/audit?action=rate_limit.set')
  assert.equal(entriesOf(all.text), 50)
  const [, older = ''] = /href="([^"]*)">Older/.exec(all.text) ?? []
  assert.match(older, /action=rate_limit\.set&amp;before=aud_/)
  const second = await under.get(older.replaceAll('&amp;', '&').replace(BASE, ''))
  assert.equal(entriesOf(second.text), 10)
  assert.match(second.text, /href="[^"]*\?action=rate_limit\.set">Newest<\/a>/)
})

test('GET /audit keeps a subject that is chosen by a link while other filters change', async () => {
  const under = await setUpSeeded()
  const { disabledEndpoint } = under.seeded
  const { text, words } = await under.get(`/audit?subject=${disabledEndpoint}`)
  assert.match(words, /Entries for Old CRM/)
  assert.match(text, new RegExp(`<input type="hidden" name="subject" value="${disabledEndpoint}">`))
  assert.match(words, /Disabled endpoint “Old CRM” Filter grace@example\.com/)
  under.access = { ...EVERYTHING, can: ['audit:read'] }
  const limited = await under.get(`/audit?subject=${disabledEndpoint}`)
  assert.doesNotMatch(limited.text, /Old CRM/)
})
