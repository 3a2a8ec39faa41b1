import assert from 'node:assert/strict'
import type { ColumnType } from '../../lib/resources/columns.ts'
import { ENDPOINT_CHOICES, type EndpointChoices } from '../../lib/webhooks/endpoint-choices.ts'
import {
  type EndpointChanges,
  type EndpointRecord,
  SENT_FIELDS,
  type WebhookEndpoint,
} from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  claimOne,
  createPublisher,
  failure,
  onlyEndpoint,
  shown,
  storeTime,
  writeResults,
} from './delivering.ts'
import { testRemove, testStates } from './endpoint-states.ts'
import type { StoreHarness } from './harness.ts'
import { entriesOf } from './settings-changes.ts'
import { callAtOnce, createTenant, ids, newEndpoint } from './tenant.ts'

/** Tests the stored fields of endpoints and how they are changed. */
export function testEndpoints(harness: StoreHarness): void {
  testList(harness)
  testGet(harness)
  testTarget(harness)
  testUpdate(harness)
  testStates(harness)
  testRemove(harness)
}

/** A value of each type that could easily get lost. */
const ODD_VALUES: Record<ColumnType, unknown> = {
  text: 'O\'Brien "🏺" \\ \n 株式会社 \u0001\u2028',
  'text[]': ['support.ticket_created', 'client.created'],
  boolean: true,
  integer: 2 ** 31 - 1,
  float8: 0.1,
  numeric: '0.1',
  'numeric(15, 3)': 0.001,
  timestamptz: '9999-12-31T23:59:59.999Z',
}

/** Choices that differ from those of a simple endpoint, with values that could easily get lost. */
const ODD = {
  ...Object.fromEntries(ENDPOINT_CHOICES.map(({ field, type }) => [field, ODD_VALUES[type]])),
  url: 'https://münchen.example:8443/hook?q=%20"\'&x=🏺#{}',
} as EndpointChoices

/** The values of {@link ODD} one by one. */
const ODD_CHOICES: readonly Partial<EndpointChoices>[] = ENDPOINT_CHOICES.map(({ field }) => ({
  [field]: Reflect.get(ODD, field),
}))

/** Returns what an attempt receives of an endpoint. */
function sentOf(endpoint: object): object {
  return Object.fromEntries(SENT_FIELDS.map((field) => [field, Reflect.get(endpoint, field)]))
}

function testList(harness: StoreHarness): void {
  harness.test(
    'endpoints.list() returns all endpoints newest first, with each field as inserted and no secrets',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const plain = newEndpoint({ createdAt: '2019-01-01T00:00:00.000Z' })
      const odd = newEndpoint({
        ...ODD,
        headerNames: ['X-Tenant', 'Authorization', 'constructor', '\'b "c" \\ é'],
        sealedHeaders: 'v1.hidden.\'"\\é🏺',
        createdAt: '2020-02-29T23:59:59.010Z',
        sealedSecret: 'v1.abc.\'"\\é🏺',
      })
      await tenant.store.endpoints.insert({
        organizationId: tenant.id,
        limit: 1000,
        endpoint: odd,
        entry: newEntry(),
      })
      await tenant.store.endpoints.insert({
        organizationId: tenant.id,
        limit: 1000,
        endpoint: plain,
        entry: newEntry(),
      })
      const endpoints = await tenant.store.endpoints.list(tenant.id)
      assert.deepEqual(endpoints, [shown(odd), shown(plain)].sort(byIdBackwards))
      assert.doesNotMatch(JSON.stringify(endpoints), /v1\./)

      const event = await tenant.publish({ type: 'support.ticket_created' })
      const { deliveries } = await claim(tenant)
      const delivery = deliveries.find(({ endpointId }) => endpointId === odd.id)
      assert.equal(delivery?.eventId, event.id)
      assert.deepEqual(delivery.sealedSecrets, [odd.sealedSecret])
      assert.deepEqual(sentOf(delivery), sentOf(odd))
    },
  )

  harness.test('endpoints.list() is empty for an organization without endpoints', async () => {
    const id = 'org_contract_without_endpoints'
    assert.deepEqual(await (await harness.store(id)).endpoints.list(id), [])
  })

  harness.test('endpoints.insert() of an existing id changes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    const endpoint = await tenant.insertEndpoint({ types: ['client.created'] })
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: endpoint.id,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    const before = await tenant.store.endpoints.list(tenant.id)
    await tenant.secondStore.endpoints.insert({
      organizationId: tenant.id,
      limit: 1000,
      endpoint,
      entry: newEntry(),
    })
    await tenant.insertEndpoint({ id: endpoint.id, description: 'Another' })
    assert.deepEqual(await tenant.store.endpoints.list(tenant.id), before)
  })
}

function byIdBackwards(one: WebhookEndpoint, other: WebhookEndpoint): number {
  return one.id < other.id ? 1 : -1
}

function testGet(harness: StoreHarness): void {
  harness.test(
    'endpoints.get() returns the endpoint of the list, and null if it was removed or belongs to another organization',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const { id } = await ours.insertEndpoint()
      const { endpoints } = ours.store
      assert.deepEqual(await endpoints.get(ours.id, id), (await endpoints.list(ours.id))[0])
      assert.equal(await theirs.store.endpoints.get(theirs.id, id), null)
      await endpoints.remove({ organizationId: ours.id, endpointId: id, entry: newEntry() })
      assert.equal(await endpoints.get(ours.id, id), null)
    },
  )
}

function testTarget(harness: StoreHarness): void {
  harness.test(
    'endpoints.getTarget() returns the URL, secrets and headers of an endpoint in any state',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const own = { headerNames: ['X-Tenant', 'é "'], sealedHeaders: 'sealed \'"\\é🏺' }
      const endpoint = await tenant.insertEndpoint({ ...ODD, ...own })
      const { id, types, sealedSecret } = endpoint
      for (const state of ['enabled', 'paused', 'disabled'] as const) {
        await tenant.store.endpoints.setState({
          organizationId: tenant.id,
          endpointId: id,
          state,
          from: ['enabled', 'paused'],
          entry: newEntry(),
        })
        const target = await tenant.secondStore.endpoints.getTarget(tenant.id, id)
        const { storeTime: now = 0, ...rest } = target ?? {}
        assert.deepEqual(rest, { ...sentOf(endpoint), types, sealedSecrets: [sealedSecret] })
        assert.ok(Math.abs(now - (await storeTime(tenant))) < 10_000, `the store's clock is at ${now}`)
      }
    },
  )
}

/** Returns the headers of a record with this name. */
function sealedHeaders(name: string): Pick<EndpointRecord, 'headerNames' | 'sealedHeaders'> {
  return { headerNames: [name], sealedHeaders: `sealed ${name}` }
}

function testUpdate(harness: StoreHarness): void {
  harness.test(
    'endpoints.update() only changes the given fields, and returns the endpoint after the change',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const other = await tenant.insertEndpoint()
      const endpoint = await tenant.insertEndpoint({ description: 'Shop', ...sealedHeaders('one') })
      const { id } = endpoint
      let expected = shown(endpoint)
      const updates: readonly EndpointChanges[] = [
        ...ODD_CHOICES,
        { description: '' },
        { headers: { ...sealedHeaders("o'h \\"), replaces: 'sealed one' } },
        { types: null, headers: { headerNames: [], sealedHeaders: null, replaces: "sealed o'h \\" } },
        { headers: { ...sealedHeaders('two'), replaces: null } },
        { standardWebhooks: false },
        {},
      ]
      for (const { headers, ...fields } of updates) {
        const changes = headers ? { ...fields, headers } : fields
        const version = expected.version + (Object.keys(changes).length > 0 ? 1 : 0)
        expected = { ...expected, version, ...fields, ...(headers && { headerNames: headers.headerNames }) }
        const request = { organizationId: tenant.id, endpointId: id, changes, entry: newEntry() }
        const outcome = await tenant.store.endpoints.update(request)
        assert.deepEqual(outcome, { outcome: 'changed', endpoint: expected })
        assert.deepEqual(await tenant.secondStore.endpoints.list(tenant.id), [expected, shown(other)])
      }
      const target = await tenant.store.endpoints.getTarget(tenant.id, id)
      assert.equal(target?.sealedHeaders, 'sealed two')
    },
  )

  harness.test(
    'endpoints.update() of headers that were changed in the meantime changes nothing, reports a conflict and writes no entry',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint(sealedHeaders('one'))
      const update = (replaces: string | null, name: string, entry = newEntry({ subjectId: id })) => {
        const changes = { description: name, headers: { ...sealedHeaders(name), replaces } }
        return tenant.store.endpoints.update({ organizationId: tenant.id, endpointId: id, changes, entry })
      }
      const before = await onlyEndpoint(tenant)
      for (const replaces of [null, 'sealed', 'sealed two']) {
        assert.deepEqual(await update(replaces, 'three'), { outcome: 'conflict', endpoint: before })
      }
      assert.deepEqual(await onlyEndpoint(tenant), before)
      assert.deepEqual(await entriesOf(tenant, id), [])

      const entry = newEntry({ subjectId: id })
      const changed = await update('sealed one', 'two', entry)
      assert.equal(changed?.outcome, 'changed')
      assert.deepEqual(await update('sealed one', 'two', entry), changed, 'sent again after a lost answer')
      await update('sealed two', 'three')
      assert.equal((await update('sealed one', 'two', entry))?.outcome, 'changed', 'and after another change')
      assert.equal((await onlyEndpoint(tenant)).description, 'three')
    },
  )

  harness.test(
    'endpoints.update() of the same headers ten times concurrently in two processes changes them once',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      let count = 0
      const outcomes = await callAtOnce(tenant, ({ endpoints }) => {
        const changes = { headers: { ...sealedHeaders(`${++count}`), replaces: null } }
        return endpoints.update({ organizationId: tenant.id, endpointId, changes, entry: newEntry() })
      })
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'changed').length, 1)
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'conflict').length, 9)
    },
  )

  harness.test(
    'endpoints.update() changes nothing if the version is not the current one, and one of ten concurrent calls succeeds',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint(sealedHeaders('one'))
      const { id: organizationId, store } = tenant
      const update = (changes: EndpointChanges, replaces?: number, by = store) =>
        by.endpoints.update({ organizationId, endpointId, changes, entry: newEntry(), replaces })
      // Each change creates a version, but setting the same values doesn't.
      const headers = { headerNames: ['one'], sealedHeaders: 'another value', replaces: 'sealed one' }
      const updates: readonly EndpointChanges[] = [...ODD_CHOICES, { headers }]
      for (const changes of updates) {
        const { version } = await onlyEndpoint(tenant)
        const made = await update(changes, version)
        assert.deepEqual([made?.outcome, made?.endpoint.version], ['changed', version + 1])
        const repeated = changes.headers
          ? { headers: { ...headers, replaces: headers.sealedHeaders } }
          : changes
        assert.equal((await update(repeated))?.endpoint.version, version + 1)
        const conflict = { outcome: 'conflict', endpoint: made?.endpoint }
        for (const wrong of [version, version + 2]) {
          assert.deepEqual(await update({ description: 'new' }, wrong), conflict)
        }
      }
      const { version: seen } = await onlyEndpoint(tenant)
      let count = 0
      const outcomes = await callAtOnce(tenant, (by) => update({ description: `${++count}` }, seen, by))
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'changed').length, 1)
      assert.equal((await update({ description: 'last' }, seen + 1))?.outcome, 'changed')
    },
  )

  harness.test('endpoints.update() takes effect with the next claim and the next event', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const event = await tenant.publish({ type: 'client.created' })
    await tenant.store.endpoints.update({
      organizationId: tenant.id,
      endpointId: id,
      changes: {
        url: 'https://new.example/',
        headers: { ...sealedHeaders('new'), replaces: null },
        types: ['lead.created'],
      },
      entry: newEntry(),
    })
    await tenant.publish({ type: 'client.created' })
    const { url, headerNames, sealedHeaders: sealed, eventId } = await claimOne(tenant)
    assert.deepEqual([url, eventId], ['https://new.example/', event.id])
    assert.deepEqual([headerNames, sealed], [['new'], 'sealed new'])
  })

  harness.test('endpoints.update() does not change the state, failures or secrets', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.store.endpoints.rotateSecret({
      organizationId: tenant.id,
      changeId: ids('chg'),
      endpointId: id,
      sealedSecret: 'second',
      overlapMs: 60_000,
      entry: newEntry(),
    })
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    const before = await onlyEndpoint(tenant)
    const after = await tenant.store.endpoints.update({
      organizationId: tenant.id,
      endpointId: id,
      changes: { description: 'Shop' },
      entry: newEntry(),
    })
    assert.deepEqual(after?.endpoint, { ...before, version: 1, description: 'Shop' })
    assert.deepEqual([before.state, before.failures], ['disabled', 1])
  })
}
