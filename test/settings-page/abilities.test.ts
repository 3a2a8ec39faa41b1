import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { type PageRoute, ROUTES } from '../../lib/settings-page/routes.ts'
import { ABILITIES } from '../../lib/settings-page.ts'
import { claim, publish, record } from '../settings/_stores.ts'
import { SENDER } from './_host.ts'
import { BASE, EVERYTHING, ORGANIZATION, setUp } from './_page.ts'
import { type Seeded, screensOf, seed } from './_seed.ts'

// Every route of the page for a person without the ability, with an ended session, or of another organization.

async function setUpSeeded() {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false })
  const under = setUp({ store, api, settings: { sender: SENDER } })
  return Object.assign(under, { seeded: await seed(store, under.settings, ORGANIZATION) })
}

/** The path of a route with an id on which the route has an effect. */
function pathOf({ path }: PageRoute, seeded: Seeded): string {
  const { activeKey, endpoint, pausedEndpoint, disabledEndpoint, failedDelivery, pendingDelivery, event } =
    seeded
  const special: Readonly<Record<string, string>> = {
    '/endpoints/:id/resume': pausedEndpoint,
    '/endpoints/:id/enable': disabledEndpoint,
    '/deliveries/:id/cancel': pendingDelivery,
    '/reference/:id': 'createClient',
  }
  const ids: Readonly<Record<string, string>> = {
    keys: activeKey,
    endpoints: endpoint,
    deliveries: failedDelivery,
    events: event,
  }
  return path.replace(':id', special[path] ?? ids[path.split('/')[1] ?? ''] ?? 'missing')
}

/** Fields with which every form of the page has an effect. */
const fieldsOf = ({ endpoint, failedDelivery }: Seeded, { path }: PageRoute) => ({
  // The selected rows of the list.
  ...(path === '/deliveries/resend' && { id: failedDelivery, enhanced: '1' }),
  to: endpoint,
  name: 'Renamed',
  scope: 'clients:read',
  expiry: 'never',
  url: 'https://hooks.example.com/new',
  description: 'Changed',
  wants: 'some',
  type: 'client.created',
  overlap: '24h',
})

type UnderSeeded = Awaited<ReturnType<typeof setUpSeeded>>

/** Everything that an act could change. */
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

test('the fields and ids of these tests have an effect on every route, else the tests below would show nothing', async () => {
  for (const route of POSTS) {
    const under = await setUpSeeded()
    const before = await stateOf(under)
    const { status } = await under.post(pathOf(route, under.seeded), fieldsOf(under.seeded, route))
    assert.ok(status === 200 || status === 303, `${route.path} ${status}`)
    assert.notDeepEqual(await stateOf(under), before, route.path)
  }
})

test('without an ability to read its paths are 404, for GET and POST, and no link leads there', async () => {
  const under = await setUpSeeded()
  const before = await stateOf(under)
  for (const ability of ABILITIES.filter((each) => each.endsWith(':read'))) {
    under.access = { ...EVERYTHING, can: ABILITIES.filter((each) => each !== ability) }
    for (const route of ROUTES.filter(({ reads }) => reads === ability)) {
      const path = pathOf(route, under.seeded)
      const { status } = await (route.method === 'GET'
        ? under.get(path)
        : under.post(path, fieldsOf(under.seeded, route)))
      assert.equal(status, 404, `${route.method} ${path}`)
    }
    const hidden = new RegExp(`(href|action)="${BASE}/${ability.split(':')[0]}["/?]`)
    for (const path of screensOf(under.seeded)) {
      const { status, text } = await under.get(path)
      if (status === 200) assert.doesNotMatch(text, hidden, `${path} without ${ability}`)
    }
  }
  assert.deepEqual(await stateOf(under), before)
})

test('without an ability to write, the controls are absent on every screen, and the forms are 403', async () => {
  const under = await setUpSeeded()
  const before = await stateOf(under)
  for (const ability of ABILITIES.filter((each) => each.endsWith(':write'))) {
    under.access = EVERYTHING
    const controls = ROUTES.filter(({ writes }) => writes === ability).map(
      ({ path }) => new RegExp(`(href|action)="${BASE}${path.replace(':id', '\\w+')}["?]`),
    )
    const shown = async () => {
      const texts = await Promise.all(screensOf(under.seeded).map((path) => under.get(path)))
      return texts.flatMap(({ status, text }) => (status === 200 ? [text] : [])).join('')
    }
    const everything = await shown()
    assert.ok(controls.every((control) => control.test(everything)))
    under.access = { ...EVERYTHING, can: ABILITIES.filter((each) => each !== ability) }
    const less = await shown()
    for (const control of controls) assert.doesNotMatch(less, control)
    for (const route of POSTS.filter(({ writes }) => writes === ability)) {
      assert.equal(
        (await under.post(pathOf(route, under.seeded), fieldsOf(under.seeded, route))).status,
        403,
        route.path,
      )
    }
  }
  under.access = { ...EVERYTHING, can: 'read' }
  for (const path of screensOf(under.seeded))
    assert.doesNotMatch((await under.get(path)).text, /method="post"/, path)
  assert.deepEqual(await stateOf(under), before)
})

test('ids of another organization are 404 on every path, and neither organization has an entry of it', async () => {
  const under = await setUpSeeded()
  const before = await stateOf(under)
  under.access = { ...EVERYTHING, organizationId: 'org_other' }
  const withIds = ROUTES.filter(({ path }) => path.includes(':id') && !path.startsWith('/reference'))
  assert.equal(withIds.length, 28)
  for (const route of withIds) {
    const path = pathOf(route, under.seeded)
    const { status } = await (route.method === 'GET'
      ? under.get(path)
      : under.post(path, fieldsOf(under.seeded, route)))
    assert.equal(status, 404, `${route.method} ${path}`)
  }
  const { endpoint, failedDelivery } = under.seeded
  assert.match((await under.get(`/audit?subject=${endpoint}`)).words, /No entries match/)
  const { eventId } = await under.settings.deliveries.get(ORGANIZATION, failedDelivery)
  for (const query of [`endpoint=${endpoint}`, `event=${eventId}`])
    assert.match((await under.get(`/deliveries?${query}`)).words, /No deliveries match/)
  assert.deepEqual(await stateOf(under), before)
  assert.deepEqual((await under.settings.audit.list('org_other')).data, [])
})

test('a session revoked between the form and the POST is rejected on every route, and nothing is changed', async () => {
  const under = await setUpSeeded()
  const before = await stateOf(under)
  for (const route of POSTS) {
    const path = pathOf(route, under.seeded)
    under.access = EVERYTHING
    const isForm = ROUTES.some((each) => each.path === route.path && each.method === 'GET')
    if (isForm) assert.equal((await under.get(path)).status, 200, path)
    under.access = null
    assert.equal((await under.post(path, fieldsOf(under.seeded, route))).status, 401, path)
    under.access = { redirect: '/login' }
    assert.deepEqual((await under.post(path, fieldsOf(under.seeded, route))).location, '/login', path)
    // The person still has a session, but no longer the right.
    under.access = { ...EVERYTHING, can: 'read' }
    assert.equal((await under.post(path, fieldsOf(under.seeded, route))).status, 403, path)
  }
  assert.deepEqual(await stateOf(under), before)
})

test('a form of another origin is rejected on every route, and nothing is changed', async () => {
  const under = await setUpSeeded()
  const before = await stateOf(under)
  for (const route of POSTS) {
    const path = pathOf(route, under.seeded)
    for (const headers of [{ 'Sec-Fetch-Site': 'same-site' }, { Origin: 'null' }, {}]) {
      assert.equal((await under.post(path, fieldsOf(under.seeded, route), headers)).status, 403, path)
    }
  }
  assert.deepEqual(await stateOf(under), before)
})

test('without endpoints:read no screen shows the URL of an endpoint, but its description or id', async () => {
  const under = await setUpSeeded()
  const url = 'https://hooks.example.com/token-in-path?token=secret'
  const { id } = await under.settings.endpoints.register(ORGANIZATION, { url })
  await publish(under.store, ORGANIZATION, 'client.created')
  const claimed = (await claim(under.store, ORGANIZATION)).filter(({ endpointId }) => endpointId === id)
  const bodyExcerpt = 'Cannot POST /token-in-path?token=secret: no token-in-path here'
  const failed = { status: 404, reason: 'http_404', location: `${url}/`, bodyExcerpt }
  await record(under.store, claimed, 'failed', failed)
  const open = (await under.get('/deliveries')).text
  assert.match(open, /token-in-path/)
  under.access = { ...EVERYTHING, can: ABILITIES.filter((each) => each !== 'endpoints:read') }
  const { data } = await under.settings.deliveries.list(ORGANIZATION, { endpointId: id })
  const paths = [...screensOf(under.seeded), `/deliveries/${data[0]?.id}`, `/audit?subject=${id}`]
  for (const path of paths) {
    const { text } = await under.get(path)
    // The reference and the forms have examples of their own.
    if (!path.startsWith('/reference')) assert.doesNotMatch(text, /hooks\.example|token-in-path/, path)
  }
  assert.match((await under.get(`/deliveries/${data[0]?.id}`)).words, /Cannot POST …: no … here/)
  const { text } = await under.get('/deliveries')
  assert.match(text, new RegExp(`<option value="${id}">${id}</option>`))
  assert.match(text, /Billing/)
  // What an earlier URL had in it is no longer known, so the whole answer is left out.
  await under.settings.endpoints.update(ORGANIZATION, id, { description: 'Renamed' })
  assert.match((await under.get(`/deliveries/${data[0]?.id}`)).words, /Cannot POST …: no … here/)
  await under.settings.endpoints.update(ORGANIZATION, id, { url: 'https://hooks.example.com/other' })
  assert.doesNotMatch((await under.get(`/deliveries/${data[0]?.id}`)).text, /token-in-path|Cannot POST/)
})
