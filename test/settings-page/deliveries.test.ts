import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claim, publish, record } from '../settings/_stores.ts'
import { BASE, decode, hiddenOf, ORGANIZATION, setUp } from './_page.ts'
import { seed } from './_seed.ts'

async function setUpSeeded() {
  const under = setUp()
  return Object.assign(under, { seeded: await seed(under.store, under.settings, ORGANIZATION) })
}

function rowsOf(text: string): number {
  return text.match(/<tr><th scope="row">/g)?.length ?? 0
}

test('GET /deliveries filters by state, response, type, endpoint, event and time, all in the URL', async () => {
  const under = await setUpSeeded()
  const { endpoint, failedDelivery } = under.seeded
  const { eventId } = await under.settings.deliveries.get(ORGANIZATION, failedDelivery)
  const counts = {
    '': 16,
    'state=failed': 1,
    'state=delivered': 4,
    'response=5xx': 1,
    'response=none': 3,
    'type=invoice.paid': 8,
    [`endpoint=${endpoint}`]: 4,
    [`event=${eventId}`]: 4,
    'period=1h': 16,
    'period=custom&to=2020-01-01T00:00': 0,
    'period=custom&from=2020-01-01T00:00': 16,
    'state=nonsense&type=nonsense&period=nonsense': 16,
  }
  for (const [query, count] of Object.entries(counts)) {
    assert.equal(rowsOf((await under.get(`/deliveries?${query}`)).text), count, query)
  }
})

test('GET /deliveries goes on to older deliveries by a link that keeps the filter', async () => {
  const under = await setUpSeeded()
  for (let event = 0; event < 12; event++) await publish(under.store, ORGANIZATION, 'invoice.paid')
  const first = await under.get('/deliveries?type=invoice.paid')
  assert.equal(rowsOf(first.text), 50)
  const [, older = ''] = /href="([^"]*)">Older/.exec(first.text) ?? []
  const second = await under.get(older.replaceAll('&amp;', '&').replace(BASE, ''))
  assert.equal(rowsOf(second.text), 8 + 48 - 50)
  assert.match(second.text, />Newest<\/a>/)
})

test('GET /deliveries/:id shows body and attempts in words, newest first', async () => {
  const under = await setUpSeeded()
  const { words, text } = await under.get(`/deliveries/${under.seeded.failedDelivery}`)
  assert.match(
    words,
    /Failed .*Error 503 Service Unavailable Created .* Failed at .*Attempt 1, .*DNS lookup 1 ms, Connect 2 ms.*The queue is full/,
  )
  assert.match(text, /&quot;text&quot;: &quot;é 🏺&quot;/)
})

test('GET /deliveries/:id of a delivery without an attempt has its request where the first attempt will replace it', async () => {
  const under = await setUpSeeded()
  await publish(under.store, ORGANIZATION, 'invoice.paid')
  const { data } = await under.settings.deliveries.list(ORGANIZATION, { states: ['pending'] })
  const { text } = await under.get(`/deliveries/${data[0]?.id}`)
  assert.equal(text.split('>Request<').length, 2)
  assert.equal(elementAt(text, '<div data-live="yes">').split('>Request<').length, 2)
})

/** Returns an element up to its end tag. */
function elementAt(text: string, start: string): string {
  const rest = text.slice(text.indexOf(start))
  let depth = 0
  for (const { 0: tag, index } of rest.matchAll(/<\/?div\b/g)) {
    depth += tag === '<div' ? 1 : -1
    if (depth === 0) return rest.slice(0, index)
  }
  return rest
}

test('GET /deliveries/:id has a table of attempts, and the request and response of the chosen one', async () => {
  const under = await setUpSeeded()
  const { failedDelivery: id } = under.seeded
  await under.post(`/deliveries/${id}/redeliver`, {})
  const [again] = (await claim(under.store, ORGANIZATION)).filter((claimed) => claimed.id === id)
  assert.ok(again)
  await record(under.store, [again], 'failed', {
    ...{ status: 302, reason: 'http_302', location: 'https://elsewhere.example/', bodyExcerpt: 'Moved' },
    headers: { request: { 'X-Team': '(hidden)' }, response: { 'retry-after': '60' } },
  })
  const newest = await under.get(`/deliveries/${id}`)
  assert.match(newest.words, /#2 302 Found .*#1 503 Service Unavailable .*Attempt 2, /)
  assert.match(newest.words, /Redirects to https:\/\/elsewhere\.example\/ \(not followed\).*Moved/)
  assert.match(
    newest.words,
    /Response headers retry-after: 60.*POST https:\/\/hooks\.example\.com\/warehouse/,
  )
  assert.match(newest.words, /X-SERVICE-Event-Id: evt_\w+ X-SERVICE-Event-Type: \S+ .*X-Team: \(hidden\)/)
  assert.match(newest.text, new RegExp(`data-copy="${id}" aria-label="Copy delivery ID" hidden`))
  const first = await under.get(`/deliveries/${id}?attempt=1`)
  assert.match(first.words, /Attempt 1, .*The queue is full/)
  assert.doesNotMatch(first.words, /Moved/)
  await under.settings.endpoints.update(ORGANIZATION, under.seeded.failingEndpoint, {
    url: 'https://hooks.example.com/new',
  })
  // The URL of the attempts is no longer known.
  assert.doesNotMatch((await under.get(`/deliveries/${id}`)).words, /POST https/)
})

test('POST /deliveries/resend sends the selected deliveries again, and says which could not be', async () => {
  const under = await setUpSeeded()
  const { failedDelivery, deliveredDelivery, pendingDelivery, pausedEndpoint } = under.seeded
  const due = { states: ['pending'], endpointId: pausedEndpoint } as const
  const [waiting] = (await under.settings.deliveries.list(ORGANIZATION, due)).data
  const list = await under.get('/deliveries?state=failed')
  assert.match(list.text, new RegExp(`<input type="checkbox" name="id" value="${failedDelivery}"`))
  const all = await under.get('/deliveries')
  assert.doesNotMatch(all.text, new RegExp(`value="${pendingDelivery}"`), 'a box for a delivery in progress')
  const { other } = JSON.parse(decode(/data-count="([^"]*)"/.exec(all.text)?.[1] ?? ''))
  assert.equal(other, 'Resend {0} deliveries')
  const id = [failedDelivery, deliveredDelivery, waiting?.id ?? '', 'dlv_missing', 'nonsense']
  const last = `dlv_${'7'.padEnd(26, 'Z')}`
  const older = await under.get(`/deliveries?before=${last}`)
  assert.ok(older.text.includes(`/deliveries/resend?before=${last}"`))
  const question = await under.post(`/deliveries/resend?type=client.created&before=${last}`, { id })
  assert.match(
    question.words,
    /Resend selected deliveries\? 3 deliveries will be resent\..* Resend 3 deliveries/,
  )
  assert.equal((await under.settings.deliveries.get(ORGANIZATION, failedDelivery)).state, 'failed')
  const page = `${BASE}/deliveries?type=client.created&before=${last}`
  assert.ok(decode(question.text).includes(`href="${page}"`))
  const [, action = ''] = /method="post" action="([^"]*)"/.exec(question.text) ?? []
  const sent = await under.post(decode(action).replace(BASE, ''), hiddenOf(question))
  assert.equal(sent.location, `${page}&resent=2&left=1`)
  const { words } = await under.get((sent.location ?? '').replace(BASE, ''))
  assert.match(
    words,
    /2 deliveries queued Couldn't resend 1 delivery Pending or sending, or the endpoint was deleted/,
  )
  for (const one of [failedDelivery, deliveredDelivery])
    assert.equal((await under.settings.deliveries.get(ORGANIZATION, one)).state, 'pending')
  const none = await under.post('/deliveries/resend', {})
  assert.match(
    (await under.get((none.location ?? '').replace(BASE, ''))).words,
    /Select at least one delivery/,
  )
})

test('POST /deliveries/:id/redeliver and cancel act once, and show the present state when rejected', async () => {
  const under = await setUpSeeded()
  const { failedDelivery: id } = under.seeded
  assert.equal(
    (await under.post(`/deliveries/${id}/redeliver`, {})).location,
    `${BASE}/deliveries/${id}?done=redelivered`,
  )
  const again = await under.post(`/deliveries/${id}/redeliver`, {})
  assert.equal(again.status, 409)
  assert.match(again.words, /pending or sending.*Status Pending.*Resent delivery.*ada@example\.com/)
  assert.equal(
    (await under.submit(`/deliveries/${id}/cancel`, {})).location,
    `${BASE}/deliveries/${id}?done=cancelled`,
  )
  assert.equal((await under.post(`/deliveries/${id}/cancel`, {})).status, 409)
})

test('a delivery that is backing off can be retried now, unless its endpoint is paused', async () => {
  const under = await setUpSeeded()
  const { pendingDelivery: id, failingEndpoint } = under.seeded
  assert.match((await under.get('/deliveries')).words, /Pending Retry [^·]+ · Connection refused/)
  assert.match(
    (await under.get(`/deliveries/${id}`)).text,
    new RegExp(`action="[^"]*/${id}/redeliver".*>Retry now<`, 's'),
  )
  await under.settings.endpoints.pause(ORGANIZATION, failingEndpoint)
  const paused = await under.get(`/deliveries/${id}`)
  assert.match(paused.words, /Next attempt When the endpoint is resumed/)
  assert.match(
    (await under.get('/deliveries')).words,
    /Pending Endpoint paused · Connection refused Warehouse/,
  )
  assert.doesNotMatch(paused.words, /Retry now/)
  await under.settings.endpoints.resume(ORGANIZATION, failingEndpoint)

  const { location } = await under.post(`/deliveries/${id}/redeliver`, {})
  assert.equal(location, `${BASE}/deliveries/${id}?done=redelivered`)
  assert.match(
    (await under.get(`/deliveries/${id}?done=redelivered`)).words,
    /Resend queued.* Next attempt Now Created/,
  )
  await under.settings.endpoints.update(ORGANIZATION, failingEndpoint, { maxPerSecond: 1 })
  const limited = await under.get(`/deliveries/${id}`)
  assert.match(limited.words, /Next attempt Queued: limit of 1 per second/)
  assert.doesNotMatch(limited.words, /Retry now/)
})

test("an event's deliveries have no button to resend failed ones, which would resend those of other events", async () => {
  const under = await setUpSeeded()
  const [delivery] = (await under.settings.deliveries.list(ORGANIZATION, { limit: 1 })).data
  const all = await under.get(`/deliveries?type=${delivery?.type}`)
  assert.match(all.text, /href="[^"]*\/deliveries\/recover/)
  const ofEvent = await under.get(`/deliveries?event=${delivery?.eventId}`)
  assert.match(ofEvent.text, new RegExp(`/deliveries/${delivery?.id}"`))
  assert.doesNotMatch(ofEvent.text, /href="[^"]*\/deliveries\/recover/)
})

test('POST /deliveries/recover sends the counted deliveries again, with one entry in the audit', async () => {
  const under = await setUpSeeded()
  const question = await under.get('/deliveries/recover?type=client.created&period=24h')
  assert.match(
    question.words,
    /1 failed and 2 skipped deliveries will be resent\. The list's filters apply, except for the status\. Each is resent with the same event ID\. Deliveries to deleted endpoints can't be resent\. Deliveries to disabled endpoints are skipped again\. Cancel/,
  )
  const ofOne = await under.get(`/deliveries/recover?endpoint=${under.seeded.failingEndpoint}`)
  assert.match(
    ofOne.words,
    /Only deliveries to this endpoint\. Each is resent with the same event ID\. Cancel/,
  )
  const { status, words } = await under.post('/deliveries/recover', hiddenOf(question))
  assert.equal(status, 200)
  assert.match(words, /3 deliveries queued/)
  const [, action = ''] = /method="post" action="([^"]*)"/.exec(question.text) ?? []
  const reloaded = await under.get(decode(action).replace(BASE, ''))
  assert.match(reloaded.words, /No failed or skipped deliveries match these filters\./)
  assert.match((await under.get('/audit')).words, /Resent failed deliveries \(3 deliveries\)/)
  assert.equal(await under.settings.deliveries.count(ORGANIZATION, { states: ['failed', 'skipped'] }), 2)
})

test('a recovery of more than a request can wait for goes on in parts', async () => {
  const under = setUp()
  const { id } = await under.settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example.com' })
  for (let event = 0; event < 5001; event++) await publish(under.store, ORGANIZATION)
  await record(under.store, await claim(under.store, ORGANIZATION), 'failed')
  const first = await under.submit(`/deliveries/recover?endpoint=${id}`, {})
  assert.match(first.text, /<progress[^>]* value="5000" max="5001"/)
  assert.match(first.words, /5,000 of 5,001 deliveries queued.*Continue/)
  assert.match(first.text, new RegExp(`action="[^"]*/deliveries/recover\\?endpoint=${id}"`))
  const second = await under.post('/deliveries/recover', hiddenOf(first))
  assert.match(second.words, /5,001 deliveries queued/)
  assert.doesNotMatch(second.words, /Continue/)
  assert.equal(await under.settings.deliveries.count(ORGANIZATION, { states: ['failed'] }), 0)
})

test('a recovery by the script shows its progress after each thousand', async () => {
  const under = setUp()
  await under.settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example.com' })
  for (let event = 0; event < 1001; event++) await publish(under.store, ORGANIZATION)
  await record(under.store, await claim(under.store, ORGANIZATION), 'failed')
  const first = await under.submit('/deliveries/recover', { enhanced: '1' })
  assert.match(first.words, /1,000 of 1,001 deliveries queued.*Continue Stop/)
  assert.match((await under.post('/deliveries/recover', hiddenOf(first))).words, /1,001 deliveries queued/)
})

test('GET / shows everything that needs an administrator, and No issues only when nothing does', async () => {
  const under = await setUpSeeded()
  const { words } = await under.get('/')
  assert.match(
    words,
    /Old CRM is disabled.*Warehouse is failing.*1 delivery failed · Last 24 hours.*Nightly export expires soon/,
  )
  assert.doesNotMatch(words, /No issues|Get started/)
  const calm = setUp()
  const { id } = await calm.settings.apiKeys.create(ORGANIZATION, {
    name: 'Website',
    scopes: ['clients:read'],
  })
  await calm.settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example.com' })
  assert.match((await calm.get('/')).words, /Get started.*API key created/)
  await calm.store.apiKeys.markUsed(ORGANIZATION, id)
  assert.match((await calm.get('/')).words, /No issues/)
})

test('a delivery leads back to the list as it was: filter and page, after its actions, and to no other address', async () => {
  const under = await setUpSeeded()
  const { failedDelivery: id, pendingDelivery } = under.seeded
  const upOf = (text: string) => decode(/class="ba-up"><a href="([^"]*)"/.exec(text)?.[1] ?? '')
  const origin = 'https://app.example'
  const list = `${BASE}/deliveries?state=failed&period=24h&before=dlv_1`
  const from = (referer: string) => under.get(`/deliveries/${id}`, { referer })
  const first = await from(`${origin}${list}`)
  assert.equal(upOf(first.text), list)
  const own = [...first.text.matchAll(new RegExp(`(?:href|action)="${BASE}(/deliveries/${id}[^"]*)"`, 'g'))]
  assert.ok(own.length >= 2)
  for (const [, path = ''] of own.filter(([, path]) => !path?.includes('/redeliver')))
    assert.equal(upOf((await under.get(decode(path))).text), list)
  const [, action = ''] = new RegExp(`action="${BASE}([^"]*redeliver[^"]*)"`).exec(first.text) ?? []
  const { location } = await under.post(decode(action), {})
  assert.equal(upOf((await under.get((location ?? '').replace(BASE, ''))).text), list)
  const question = await under.get(`/deliveries/${pendingDelivery}/cancel?from=state%3Dpending`)
  const cancel = /action="([^"]*)"/.exec(question.text)?.[1] ?? ''
  const cancelled = await under.post(decode(cancel).replace(BASE, ''), hiddenOf(question))
  assert.match(cancelled.location ?? '', /done=cancelled&from=state%3Dpending$/)

  assert.equal(
    upOf((await from(`${origin}${BASE}/deliveries?resent=2&left=0&evil=1`)).text),
    `${BASE}/deliveries`,
  )
  for (const other of [
    'https://evil.example/?state=failed',
    'nonsense',
    '',
    `${origin}${BASE}/keys?state=failed`,
  ])
    assert.equal(upOf((await from(other)).text), `${BASE}/deliveries`, other)
  const events = { referer: `${origin}${BASE}/events?type=invoice.paid` }
  const event = await under.get(`/events/${under.seeded.event}`, events)
  assert.equal(upOf(event.text), `${BASE}/events?type=invoice.paid`)
  const [, resend = ''] = new RegExp(`action="${BASE}([^"]*redeliver[^"]*)"`).exec(event.text) ?? []
  const busy = await under.post(decode(resend), { to: under.seeded.pausedEndpoint })
  assert.deepEqual([busy.status, upOf(busy.text)], [409, `${BASE}/events?type=invoice.paid`])
  const forged = await under.get(`/deliveries/${id}?from=${encodeURIComponent('//evil.example?state=<b>')}`)
  assert.equal(upOf(forged.text), `${BASE}/deliveries`)
})
