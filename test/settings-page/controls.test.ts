import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPlatform } from '../../lib/platform.ts'
import { claim } from '../settings/_stores.ts'
import { EVERYTHING, hiddenOf, ORGANIZATION, setUp } from './_page.ts'

// Choices of the forms of keys and endpoints that few need, and the choices that are made already.

test('a new key may read what the person may grant, unless the person chooses otherwise, and expires when the person says', async () => {
  const under = setUp()
  const form = await under.get('/keys/new')
  assert.equal(
    form.text.match(/value="\w+:read"[^>]* checked/g)?.length,
    form.text.match(/value="\w+:read"/g)?.length,
  )
  assert.doesNotMatch(form.text, /value="\w+:write"[^>]* checked|type="radio"[^>]* checked/)
  under.access = { ...EVERYTHING, grantableScopes: ['leads:read', 'leads:write'] }
  const less = await under.get('/keys/new')
  assert.deepEqual(less.text.match(/value="[\w:]+"(?= checked| id="scope" checked)/g), ['value="leads:read"'])
  const unchosen = await under.submit('/keys/new', { name: 'Website', scope: 'leads:read' })
  assert.equal(unchosen.status, 422)
  assert.match(unchosen.words, /Select an expiration/)
})

test('a new key gets the rate limit of the form, ten seconds of requests at once by default, and no wrong limit', async () => {
  const under = setUp()
  const fields = { name: 'Website', scope: 'clients:read', expiry: 'never' }
  for (const [perSecond, burst, expected] of [
    ['', '', null],
    ['5', '', { perSecond: 5, burst: 50 }],
    ['0.05', '', { perSecond: 0.05, burst: 1 }],
    ['2', '7', { perSecond: 2, burst: 7 }],
  ] as const) {
    assert.equal((await under.submit('/keys/new', { ...fields, perSecond, burst })).status, 200)
    const [newest] = await under.settings.apiKeys.list(ORGANIZATION)
    assert.deepEqual(newest?.rateLimit, expected)
  }
  for (const [perSecond, burst] of [
    ['0', ''],
    ['fast', ''],
    ['5', '0'],
    ['', '7'],
    ['5', '1.5'],
  ] as const) {
    const refused = await under.submit('/keys/new', { ...fields, perSecond, burst })
    assert.equal(refused.status, 422, `${perSecond} ${burst}`)
    assert.match(refused.text, new RegExp(`name="perSecond"[^>]*value="${perSecond}"`))
  }
})

test('a new endpoint gets all events, unless the person chooses types or whole groups of types', async () => {
  const under = setUp()
  assert.match((await under.get('/endpoints/new')).text, /name="wants" value="all" checked/)
  const url = 'https://hooks.example.com/'
  await under.submit('/endpoints/new', {
    url,
    wants: 'some',
    group: ['lead', 'client'],
    type: 'invoice.paid',
  })
  const [endpoint] = await under.settings.endpoints.list(ORGANIZATION)
  assert.deepEqual(endpoint?.types, ['client.created', 'lead.created', 'lead.stage_changed', 'invoice.paid'])
  const edit = await under.get(`/endpoints/${endpoint?.id}/edit`)
  // A group is shown as it is saved. Without the script its box stays ticked when a type is cleared.
  assert.deepEqual(edit.text.match(/name="group" value="\w+" checked/g), [
    'name="group" value="lead" checked',
  ])
  await under.submit(`/endpoints/${endpoint?.id}/edit`, {
    url,
    wants: 'some',
    group: 'lead',
    type: 'lead.created',
  })
  const { types } = await under.settings.endpoints.get(ORGANIZATION, endpoint?.id ?? '')
  assert.deepEqual(types, ['lead.created'])
})

test('types that are ticked beside "All events" are never ignored: the form asks which of both is meant', async () => {
  const under = setUp()
  const url = 'https://hooks.example.com/'
  for (const chosen of [{ group: 'lead' }, { type: 'invoice.paid' }] as const) {
    const { status, text, words } = await under.submit('/endpoints/new', { url, wants: 'all', ...chosen })
    assert.equal(status, 422, JSON.stringify(chosen))
    assert.match(text, /<li><a href="#wants">/)
    assert.match(words, /You selected events but left “All events” on\./)
    assert.match(text, /value="(lead\.created|invoice\.paid)" checked/)
  }
  assert.deepEqual(await under.settings.endpoints.list(ORGANIZATION), [])

  const types = ['lead.created', 'invoice.paid'] as const
  const { id } = await under.settings.endpoints.register(ORGANIZATION, { url, types: [...types] })
  const edit = (fields: Record<string, string | readonly string[]>) =>
    under.submit(`/endpoints/${id}/edit`, { url, wants: 'all', ...fields })
  const typesNow = async () => (await under.settings.endpoints.get(ORGANIZATION, id)).types
  assert.equal((await edit({ type: ['lead.created', 'invoice.issued'] })).status, 422)
  assert.deepEqual(await typesNow(), types)
  // The ticks are those of before, so only the radio button was changed.
  assert.equal((await edit({ type: types })).status, 303)
  assert.equal(await typesNow(), null)
})

test('an endpoint sends the headers of Standard Webhooks while the box is ticked', async () => {
  const under = setUp()
  const fields = { url: 'https://hooks.example.com/', wants: 'all' }
  await under.submit('/endpoints/new', { ...fields, standardWebhooks: 'yes' })
  const [endpoint] = await under.settings.endpoints.list(ORGANIZATION)
  const path = `/endpoints/${endpoint?.id}`
  assert.equal(endpoint?.standardWebhooks, true)
  assert.match((await under.get(path)).words, /Standard Webhooks headers On/)
  assert.match((await under.get(`${path}/edit`)).text, /name="standardWebhooks" value="yes" checked/)
  await under.submit(`${path}/edit`, fields)
  assert.doesNotMatch((await under.get(path)).words, /Standard Webhooks headers/)
})

test('POST /endpoints/:id/backfill sends an event for each record, in parts, and says when the endpoint is not enabled', async () => {
  const under = setUp()
  const { clients } = createPlatform(under.store)
  for (let index = 0; index < 2501; index++) await clients.create(ORGANIZATION, { name: `Client ${index}` })
  const { id } = await under.settings.endpoints.register(ORGANIZATION, {
    url: 'https://hooks.example.com/',
    types: ['client.created', 'invoice.paid'],
  })
  const form = await under.get(`/endpoints/${id}/backfill`)
  assert.match(form.text, /name="type" id="type" value="client\.created" checked/)
  assert.doesNotMatch(form.text, /business\.created/)
  assert.match((await under.get(`/endpoints/${id}`)).text, /\/backfill"/)
  await under.settings.endpoints.update(ORGANIZATION, id, { types: ['invoice.paid'] })
  assert.doesNotMatch((await under.get(`/endpoints/${id}`)).text, /\/backfill"/)
  await under.settings.endpoints.update(ORGANIZATION, id, { types: ['client.created', 'invoice.paid'] })
  const none = await under.submit(`/endpoints/${id}/backfill`, { type: 'business.created' })
  assert.equal(none.status, 422)
  const first = await under.submit(`/endpoints/${id}/backfill`, { type: 'client.created' })
  assert.match(
    first.words,
    /Backfill in progress .*2,500 of 2,501 resources processed · 2,500 events queued.*Continue/,
  )
  const second = await under.post(`/endpoints/${id}/backfill`, hiddenOf(first))
  assert.match(second.words, /Backfill complete .*2,501 events queued 2,501 resources processed/)
  assert.equal((await claim(under.store, ORGANIZATION)).length, 2501)
  await under.settings.endpoints.pause(ORGANIZATION, id)
  const paused = await under.submit(`/endpoints/${id}/backfill`, { type: 'client.created' })
  assert.equal(paused.status, 409)
  assert.match(paused.words, /the endpoint is not enabled/)
})
