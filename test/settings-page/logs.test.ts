import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { ABILITIES } from '../../lib/settings-page.ts'
import { claim, publish, record } from '../settings/_stores.ts'
import { BASE, EVERYTHING, ORGANIZATION, setUp } from './_page.ts'

// The events of an organization, and its API requests.

test('GET /events finds the events of a record and of a type, also those that no endpoint wanted', async () => {
  const under = setUp()
  const { publish: tell } = createPlatform(under.store)
  await tell(ORGANIZATION, 'invoice.paid', { invoiceId: 'inv_1', number: 'INV-1' })
  await tell(ORGANIZATION, 'invoice.paid', { invoiceId: 'inv_2', number: 'INV-2' })
  await tell(ORGANIZATION, 'project.completed', { projectId: 'proj_1', name: 'Site' })
  const all = await under.get('/events')
  assert.match(all.words, /project\.completed None Project proj_1 .*invoice\.paid None Invoice inv_2/)
  assert.equal(all.text.match(/<th scope="row">/g)?.length, 3)
  const one = await under.get('/events?record=inv_1')
  assert.equal(one.text.match(/<th scope="row">/g)?.length, 1)
  assert.match(one.text, /name="record"[^>]* value="inv_1"/)
  const [, path = ''] = /href="[^"]*(\/events\/evt_\w+)"/.exec(one.text) ?? []
  const { words } = await under.get(path)
  assert.match(one.text, /<td><a href="[^"]*\/events\?record=inv_1">Invoice <code>inv_1<\/code><\/a>/)
  assert.match(
    words,
    /Resource Invoice inv_1 Copy Payload \{ "id": "evt_.*"invoiceId": "inv_1".*Not sent to any endpoint\./,
  )
  assert.equal((await under.get('/events?type=project.completed')).text.match(/<th scope="row">/g)?.length, 1)
  assert.match(
    (await under.get('/events?record=INV-1')).words,
    /Resource ID or number.* No events match these filters\. Clear filters/,
  )
  assert.match(
    (await under.get('/events?type=lead.created')).words,
    /No events match these filters\. Clear filters/,
  )
})

test('GET /events and GET /deliveries find an invoice by its number', async () => {
  const under = setUp()
  await under.settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example.com', types: null })
  const { invoices } = createPlatform(under.store)
  const issue = async () => {
    const draft = { currency: 'EUR', total: '10', dueDate: '2026-12-31T00:00:00Z' }
    const { id: invoiceId, number } = await invoices.create(ORGANIZATION, draft)
    await invoices.issue(ORGANIZATION, { invoiceId })
    return { id: invoiceId, number }
  }
  const [{ id, number }] = [await issue(), await issue()]
  for (const path of ['/events', '/deliveries']) {
    const { text } = await under.get(`${path}?record=${number}`)
    assert.equal(text.match(/<th scope="row">/g)?.length, 1, path)
    assert.match(text, new RegExp(`invoice\\.issued.*record=${id}`, 's'))
    assert.match(text, new RegExp(`name="record"[^>]* value="${number}"`))
  }
})

test('GET /events goes on by cursor, also of ids that a host gave', async () => {
  const under = setUp()
  const createdAt = new Date().toISOString()
  for (let index = 0; index < 51; index++) {
    const id = `evt:${String(index).padStart(2, '0')} "x"`
    const body = JSON.stringify({ id, type: 'client.created', createdAt, data: {} })
    await under.store.events.publish(ORGANIZATION, { id, type: 'client.created', body })
  }
  const first = await under.get('/events')
  assert.equal(
    first.text.match(/<th scope="row">client\.created/g)?.length,
    50,
    'an id that no path can have',
  )
  const [, older = ''] = /href="[^"]*(\/events\?before=[^"]*)">Older/.exec(first.text) ?? []
  assert.match((await under.get(older)).words, /evt:00 "x"/)
})

test('POST /events/:id/redeliver sends an event to an endpoint that was added later, and says when it is on its way', async () => {
  const under = setUp()
  const eventId = await publish(under.store, ORGANIZATION, 'client.created')
  const { id } = await under.settings.endpoints.register(ORGANIZATION, {
    url: 'https://hooks.example.com/late',
    description: 'Late',
    types: ['lead.created'],
  })
  const page = await under.get(`/events/${eventId}`)
  assert.match(page.text, new RegExp(`<option value="${id}">Late</option>`))
  const sent = await under.post(`/events/${eventId}/redeliver`, { to: id })
  assert.match(sent.location ?? '', new RegExp(`^${BASE}/deliveries/dlv_\\w+\\?done=redelivered$`))
  const again = await under.post(`/events/${eventId}/redeliver`, { to: id })
  assert.equal(again.status, 409)
  assert.match(again.words, /Couldn't resend: the delivery to this endpoint is pending/)
  await record(under.store, await claim(under.store, ORGANIZATION), 'delivered')
  assert.equal((await under.post(`/events/${eventId}/redeliver`, { to: id })).status, 303)
  for (const to of ['we_unknown', ''])
    assert.equal((await under.post(`/events/${eventId}/redeliver`, { to })).status, 404)
  const { data } = await under.settings.audit.list(ORGANIZATION, { action: 'delivery.redelivered' })
  assert.deepEqual(
    data.map(({ actor }) => actor),
    ['ada@example.com', 'ada@example.com'],
  )
})

test('a delivery names its record, with a link to the events of that record', async () => {
  const under = setUp()
  await under.settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example.com/a' })
  await createPlatform(under.store).publish(ORGANIZATION, 'project.completed', {
    projectId: 'proj_1',
    name: 'Site',
  })
  const { text } = await under.get('/deliveries')
  const [, path = ''] = /href="[^"]*(\/deliveries\/dlv_\w+)"/.exec(text) ?? []
  const delivery = await under.get(path)
  assert.match(
    delivery.text,
    /<dt>Resource<\/dt><dd><span class="ba-id"><a href="[^"]*\/events\?record=proj_1">Project <code>proj_1<\/code><\/a>/,
  )
})

test('GET /requests shows the log, finds a request by its id, and filters by status and key', async () => {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false, requestLog: 'all' })
  const under = setUp({ store, api })
  assert.match(
    (await under.get('/requests')).words,
    /No requests yet\. They appear here if request logging is on/,
  )
  assert.doesNotMatch((await under.get('/')).words, /API requests Of/)
  const { id, key } = await under.settings.apiKeys.create(ORGANIZATION, {
    name: 'Website',
    scopes: ['clients:read'],
  })
  const call = async (path: string) =>
    api.fetch(new Request(`https://api.example${path}`, { headers: { Authorization: `Bearer ${key}` } }))
  const good = await call('/api/v1/clients?secret=1')
  const bad = await call('/api/v1/invoices')
  await api.requestLog.flush()
  const requestId = bad.headers.get('x-request-id') ?? ''
  const { words, text } = await under.get('/requests')
  assert.match(words, /GET \/api\/v1\/invoices 403 .* Website .*GET \/api\/v1\/clients 200/)
  assert.doesNotMatch(text, /secret=1|bapi_/)
  const found = await under.get(`/requests?id=${requestId}`)
  assert.match(
    found.words,
    new RegExp(`Request ID ${requestId} .*Request GET /api/v1/invoices Status 403 Error .*API key Website`),
  )
  assert.match(found.text, new RegExp(`href="${BASE}/keys/${id}"`))
  const missing =
    /No request has this ID\. Requests with a missing or unknown API key \(401\) aren't logged\./
  assert.match((await under.get('/requests?id=req_other')).words, missing)
  // What this sentence says is so; a revoked key is known, so its rejections are logged.
  for (const token of [null, 'bapi_live_unknown']) {
    const headers = token === null ? {} : { Authorization: `Bearer ${token}` }
    const rejected = await api.fetch(new Request('https://api.example/api/v1/clients', { headers }))
    assert.equal(rejected.status, 401)
    await api.requestLog.flush()
    assert.match((await under.get(`/requests?id=${rejected.headers.get('x-request-id')}`)).words, missing)
  }
  for (const query of ['status=2xx', `key=${id}&status=2xx`]) {
    const { words } = await under.get(`/requests?${query}`)
    assert.match(words, /clients 200/)
    assert.doesNotMatch(words, /invoices/)
  }
  assert.match((await under.get('/')).words, /API requests 2xx 1 4xx 1 5xx 0 Based on the last 2 requests/)
  under.access = { ...EVERYTHING, can: ABILITIES.filter((ability) => ability !== 'requests:read') }
  assert.doesNotMatch((await under.get('/')).words, /API requests/)
  under.access = { ...EVERYTHING, can: ['requests:read'] }
  assert.doesNotMatch((await under.get(`/requests?id=${requestId}`)).text, /\/keys/)
  under.access = { ...EVERYTHING, organizationId: 'org_other' }
  assert.match((await under.get(`/requests?id=${requestId}`)).words, missing)
  assert.equal(good.status, 200)
})

test('a full page of 50 events and of 50 requests stays within 30 kB, at two statements', async (t) => {
  const under = setUp()
  const { digestApiKey } = await import('../../lib/access/api-keys.ts')
  const keyDigest = digestApiKey(
    (await under.settings.apiKeys.create(ORGANIZATION, { name: 'Nightly export', scopes: ['clients:read'] }))
      .key,
  )
  for (let index = 0; index < 51; index++) {
    await publish(under.store, ORGANIZATION, 'marketing.provider_sync_completed')
    const path = `/api/v1/clients/cli_01K8V3ZK7Q9WJ2P4T6R8M0N1C2`
    const id = `req_01K8V3ZK7Q9WJ2P4T6R8M0N1${String(index).padStart(2, '0')}`
    const at = new Date().toISOString()
    await under.store.requests.write([
      {
        id,
        at,
        keyDigest,
        organizationId: null,
        method: 'GET',
        route: path,
        path,
        status: 200,
        durationMs: 12,
        error: null,
        isReplay: false,
      },
    ])
  }
  for (const path of ['/events', '/requests']) {
    const { text } = await under.get(path)
    assert.equal(text.match(/<th scope="row">/g)?.length, 50, path)
    t.diagnostic(`${Buffer.byteLength(text)} bytes ${path}`)
    assert.ok(Buffer.byteLength(text) <= 30_000, `${path} has ${Buffer.byteLength(text)} bytes`)
  }
})
