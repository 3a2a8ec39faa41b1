import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { type PageRoute, ROUTES } from '../../lib/settings-page/routes.ts'
import { publish } from '../settings/_stores.ts'
import { SENDER } from './_host.ts'
import { BASE, EVERYTHING, hiddenOf, ORGANIZATION, setUp } from './_page.ts'
import { type Seeded, screensOf, seed } from './_seed.ts'

// A form can be old when it is sent: another tab has changed the session, or a colleague the record.

const OTHER = { ...EVERYTHING, organizationId: 'org_other', organizationName: 'Atlas' }

async function setUpSeeded(clock = Date.now) {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false })
  const under = setUp({ store, api, clock, settings: { sender: SENDER } })
  under.access = { ...EVERYTHING, organizationName: 'Jasmin Digital' }
  return Object.assign(under, { seeded: await seed(store, under.settings, ORGANIZATION) })
}

type UnderSeeded = Awaited<ReturnType<typeof setUpSeeded>>

/** Fields with which every form of the page has an effect. */
const FIELDS = {
  name: 'Renamed',
  scope: 'clients:read',
  expiry: 'never',
  url: 'https://hooks.example.com/new',
  description: 'Changed',
  wants: 'some',
  type: 'client.created',
  overlap: '24h',
} as const

/** The path of an act, and the page with its form. */
function pathsOf({ path }: PageRoute, seeded: Seeded): { form: string; act: string } {
  const { activeKey, endpoint, pausedEndpoint, disabledEndpoint, failedDelivery, pendingDelivery, event } =
    seeded
  const special: Readonly<Record<string, string>> = {
    '/endpoints/:id/resume': pausedEndpoint,
    '/endpoints/:id/enable': disabledEndpoint,
    '/deliveries/:id/cancel': pendingDelivery,
  }
  const ids: Readonly<Record<string, string>> = {
    keys: activeKey,
    endpoints: endpoint,
    deliveries: failedDelivery,
    events: event,
  }
  const act = path.replace(':id', special[path] ?? ids[path.split('/')[1] ?? ''] ?? '')
  const isQuestion = ROUTES.some((route) => route.method === 'GET' && route.path === path)
  return { act, form: isQuestion ? act : act.replace(/\/\w+$/, '') }
}

async function stateOf({ settings }: UnderSeeded, organizationId = ORGANIZATION) {
  const { apiKeys, endpoints, deliveries, audit } = settings
  return {
    keys: await apiKeys.list(organizationId),
    endpoints: await endpoints.list(organizationId),
    deliveries: await deliveries.list(organizationId, { limit: 200 }),
    audit: await audit.list(organizationId, { limit: 200 }),
  }
}

const POSTS = ROUTES.filter(({ method }) => method === 'POST')

test('every form of every screen carries the organization, and the version of its record', async () => {
  const under = await setUpSeeded()
  let forms = 0
  for (const path of screensOf(under.seeded)) {
    const { text } = await under.get(path)
    for (const [form, action = ''] of text.matchAll(
      /<form[^>]*method="post" action="([^"]*)".*?<\/form>/gs,
    )) {
      forms++
      assert.match(form, /name="organization" value="org_page"/, path)
      // An event never changes.
      const isOfRecord = !/\/(new|recover|resend)(\?|$)|\/events\//.test(action)
      assert.equal(/name="version" value="[\w-]{16}"/.test(form), isOfRecord, `${path} ${action}`)
    }
  }
  assert.ok(forms >= 20, String(forms))
})

test('a form of another organization changes nothing in either, on every route, and both are named', async () => {
  for (const route of POSTS) {
    const under = await setUpSeeded()
    const { form, act } = pathsOf(route, under.seeded)
    const hidden = hiddenOf(await under.get(form))
    const before = await stateOf(under)
    under.access = OTHER
    const { status, words } = await under.post(act, { ...hidden, ...FIELDS })
    assert.equal(status, 409, route.path)
    assert.match(words, /Nothing was changed.*Jasmin Digital \(org_page\).*Atlas \(org_other\)/, route.path)
    assert.deepEqual(await stateOf(under), before, route.path)
    const { keys, endpoints, audit } = await stateOf(under, 'org_other')
    assert.deepEqual([keys, endpoints, audit.data], [[], [], []], route.path)
  }
})

test('a form of another organization is named before what the session may do there', async () => {
  for (const can of ['read', ['keys:read'], []] as const) {
    const under = await setUpSeeded()
    for (const route of POSTS) {
      const { form, act } = pathsOf(route, under.seeded)
      under.access = { ...EVERYTHING, organizationName: 'Jasmin Digital' }
      const hidden = hiddenOf(await under.get(form))
      under.access = { ...OTHER, can }
      const { status, words } = await under.post(act, { ...hidden, ...FIELDS })
      assert.equal(status, 409, `${route.path} ${can}`)
      assert.match(words, /Jasmin Digital \(org_page\).*Atlas \(org_other\)/, route.path)
    }
  }
})

test('a key that was rotated, or renamed and back, makes its open forms old', async () => {
  const under = await setUpSeeded()
  const { activeKey } = under.seeded
  const { apiKeys } = under.settings
  const revoking = hiddenOf(await under.get(`/keys/${activeKey}/revoke`))
  await apiKeys.rotate(ORGANIZATION, activeKey)
  assert.equal((await under.post(`/keys/${activeKey}/revoke`, revoking)).status, 409)
  assert.equal((await apiKeys.get(ORGANIZATION, activeKey)).revokedAt, null)

  const { id, name } = await apiKeys.create(ORGANIZATION, { name: 'K', scopes: ['leads:read'] })
  const naming = hiddenOf(await under.get(`/keys/${id}/edit`))
  for (const other of ['Other', name]) await apiKeys.update(ORGANIZATION, id, { name: other })
  assert.equal((await under.post(`/keys/${id}/edit`, { ...naming, name: 'Mine' })).status, 409)
  assert.equal((await apiKeys.get(ORGANIZATION, id)).name, name)
})

test('of two saves of one form at the same moment one is made, and the other shows both values', async () => {
  const under = await setUpSeeded()
  const { activeKey, endpoint } = under.seeded
  for (const [path, field] of [
    [`/keys/${activeKey}/edit`, 'name'],
    [`/endpoints/${endpoint}/edit`, 'description'],
  ] as const) {
    const form = hiddenOf(await under.get(path))
    const save = (text: string) => under.post(path, { ...form, ...FIELDS, [field]: text })
    const saves = await Promise.all([save('Mine'), save('Theirs')])
    assert.deepEqual(saves.map(({ status }) => status).sort(), [303, 409], path)
    assert.match(saves.find(({ status }) => status === 409)?.words ?? '', /(Mine Theirs|Theirs Mine)/)
    const twice = hiddenOf(await under.get(path))
    const same = await Promise.all(
      [1, 2].map(() => under.post(path, { ...twice, ...FIELDS, [field]: 'Same' })),
    )
    assert.deepEqual(
      same.map(({ status }) => status),
      [303, 303],
      path,
    )
  }
})

test('a recovery sends what its question has counted, and no later delivery, whatever the clock of the process', async () => {
  for (const aheadMs of [0, 3_600_000, -3_600_000]) {
    const under = await setUpSeeded(() => Date.now() + aheadMs)
    const { settings, store } = under
    const { failed, skipped } = await settings.deliveries.countRecoverable(ORGANIZATION)
    const question = await under.get('/deliveries/recover')
    assert.match(
      question.words,
      new RegExp(`${failed} failed and ${skipped} skipped deliveries will be resent`),
    )
    await setTimeout(5)
    for (let sent = 0; sent < 20; sent++) await publish(store, ORGANIZATION, 'client.created')
    const later = await settings.deliveries.countRecoverable(ORGANIZATION)
    assert.ok(later.failed + later.skipped >= failed + skipped + 20)
    const { words } = await under.post('/deliveries/recover', hiddenOf(question))
    assert.match(words, new RegExp(`${failed + skipped} deliveries queued`), String(aheadMs))
  }
})

/** Changes the record of a form as a colleague would. */
async function changeRecord({ settings, seeded, access }: UnderSeeded, path: string): Promise<void> {
  const { organizationId } = access as typeof EVERYTHING
  const [, root, id = ''] = path.split('/')
  const actor = 'grace@example.com'
  if (root === 'keys') await settings.apiKeys.update(organizationId, id, { name: 'Of a colleague', actor })
  if (root === 'endpoints')
    await settings.endpoints.update(organizationId, id, { description: 'Of a colleague', actor })
  if (root === 'deliveries' && id === seeded.failedDelivery)
    await settings.deliveries.redeliver(organizationId, id, { actor })
  if (root === 'deliveries' && id === seeded.pendingDelivery)
    await settings.deliveries.cancel(organizationId, id, { actor })
}

test('a form older than its record changes nothing, on every route; sent a second time it does', async () => {
  const withVersion = POSTS.filter(({ path }) => path.includes(':id') && !path.startsWith('/events'))
  for (const route of withVersion) {
    const under = await setUpSeeded()
    const { form, act } = pathsOf(route, under.seeded)
    const hidden = hiddenOf(await under.get(form))
    await changeRecord(under, act)
    const before = await stateOf(under)
    const refused = await under.post(act, { ...hidden, ...FIELDS })
    assert.equal(refused.status, 409, route.path)
    assert.match(refused.words, /Changed since you opened this page/, route.path)
    assert.deepEqual(await stateOf(under), before, route.path)
    if (act.startsWith('/deliveries')) continue
    const { status } = await under.post(act, { ...hiddenOf(refused), ...FIELDS })
    assert.ok(status === 200 || status === 303, `${route.path} ${status}`)
    assert.notDeepEqual(await stateOf(under), before, route.path)
  }
})

test('an edit that meets a newer change shows both values side by side, and keeps what was typed', async () => {
  const under = await setUpSeeded()
  const { endpoint, activeKey } = under.seeded
  const { endpoints, apiKeys } = under.settings
  const form = hiddenOf(await under.get(`/endpoints/${endpoint}/edit`))
  await endpoints.update(ORGANIZATION, endpoint, {
    url: 'https://hooks.example.com/theirs',
    types: ['invoice.paid'],
  })
  const refused = await under.post(`/endpoints/${endpoint}/edit`, { ...form, ...FIELDS })
  assert.equal(refused.status, 409)
  assert.match(
    refused.words,
    /URL https:\/\/hooks\.example\.com\/theirs https:\/\/hooks\.example\.com\/new .* Events to send invoice\.paid client\.created/,
  )
  assert.match(refused.text, /name="url"[^>]*value="https:\/\/hooks\.example\.com\/new"/)

  const name = hiddenOf(await under.get(`/keys/${activeKey}/edit`))
  await apiKeys.update(ORGANIZATION, activeKey, { name: 'Theirs' })
  const renamed = await under.post(`/keys/${activeKey}/edit`, { ...name, name: 'Mine' })
  assert.equal(renamed.status, 409)
  assert.match(renamed.words, /Name Theirs Mine/)
  assert.match(renamed.text, /name="name"[^>]*value="Mine"/)
})

test('a header whose value a colleague has changed makes an open form old, though no value is shown', async () => {
  const under = await setUpSeeded()
  const { endpoint } = under.seeded
  const { endpoints } = under.settings
  await endpoints.update(ORGANIZATION, endpoint, { headers: { 'X-Team': 'a', 'X-Gone': 'a' } })
  const form = hiddenOf(await under.get(`/endpoints/${endpoint}/edit`))
  await endpoints.update(ORGANIZATION, endpoint, { headers: { 'X-Team': 'b', 'X-Gone': null } })
  const replaced = {
    known: ['X-Team', 'X-Gone'],
    'known-act': ['replace', 'replace'],
    'known-value': ['topsecret', 'topsecret'],
  }
  const refused = await under.post(`/endpoints/${endpoint}/edit`, { ...form, ...FIELDS, ...replaced })
  assert.equal(refused.status, 409)
  assert.match(refused.words, /Custom headers X-Team X-Team \(Replace value\), X-Gone \(New value\)/)
  assert.doesNotMatch(refused.text, /topsecret/)
  assert.match(refused.text, /name="header-name" value="X-Gone"/)
})

test('the same form sent twice is done once, without a word of a conflict', async () => {
  const under = await setUpSeeded()
  const { activeKey, endpoint, pausedEndpoint } = under.seeded
  for (const [path, form] of [
    [`/keys/${activeKey}/edit`, `/keys/${activeKey}/edit`],
    [`/keys/${activeKey}/revoke`, `/keys/${activeKey}/revoke`],
    [`/endpoints/${endpoint}/edit`, `/endpoints/${endpoint}/edit`],
    [`/endpoints/${endpoint}/pause`, `/endpoints/${endpoint}`],
    [`/endpoints/${endpoint}/disable`, `/endpoints/${endpoint}/disable`],
    [`/endpoints/${endpoint}/enable`, `/endpoints/${endpoint}`],
    [`/endpoints/${pausedEndpoint}/resume`, `/endpoints/${pausedEndpoint}`],
  ] as const) {
    const hidden = hiddenOf(await under.get(form))
    for (const turn of [1, 2]) {
      assert.equal((await under.post(path, { ...hidden, ...FIELDS })).status, 303, `${path} ${turn}`)
    }
  }
  const form = hiddenOf(await under.get(`/endpoints/${endpoint}/rotate`))
  assert.equal((await under.post(`/endpoints/${endpoint}/rotate`, form)).status, 200)
  const again = await under.post(`/endpoints/${endpoint}/rotate`, form)
  assert.match(again.words, /Already saved/)
})

test('a secret that a colleague has rotated meanwhile is not rotated away unseen', async () => {
  const under = await setUpSeeded()
  const { endpoint } = under.seeded
  const form = hiddenOf(await under.get(`/endpoints/${endpoint}/rotate`))
  await under.settings.endpoints.rotateSecret(ORGANIZATION, endpoint, { actor: 'grace@example.com' })
  const { status, text } = await under.post(`/endpoints/${endpoint}/rotate`, form)
  assert.equal(status, 409)
  assert.doesNotMatch(text, /whsec_[A-Za-z0-9+/]{43}/)
})

test('a test and the deliveries of an endpoint leave its open forms as they are', async () => {
  const under = await setUpSeeded()
  const { failingEndpoint } = under.seeded
  const form = hiddenOf(await under.get(`/endpoints/${failingEndpoint}/edit`))
  assert.equal((await under.post(`/endpoints/${failingEndpoint}/test`, {})).status, 200)
  await under.settings.endpoints.pause(ORGANIZATION, failingEndpoint)
  assert.equal((await under.post(`/endpoints/${failingEndpoint}/edit`, { ...form, ...FIELDS })).status, 303)
})

test('GET of each path to which a form is posted leads to a page, so a result can be reloaded', async () => {
  const under = setUp()
  const { activeKey, endpoint, deliveredDelivery, event } = await seed(
    under.store,
    under.settings,
    ORGANIZATION,
  )
  const ids: Readonly<Record<string, string>> = {
    keys: activeKey,
    endpoints: endpoint,
    deliveries: deliveredDelivery,
    events: event,
  }
  const posted = ROUTES.filter(({ method }) => method === 'POST').map(({ path }) => path)
  assert.ok(posted.length > 15)
  for (const pattern of posted) {
    const path = pattern.replace(':id', ids[pattern.split('/')[1] ?? ''] ?? '')
    const { status, location } = await under.get(`${path}?state=failed`)
    if (status === 200) continue
    const above = path.slice(0, path.lastIndexOf('/'))
    assert.deepEqual([status, location], [303, `${BASE}${above}?state=failed`], path)
    assert.equal((await under.get(above)).status, 200, above)
  }
})
