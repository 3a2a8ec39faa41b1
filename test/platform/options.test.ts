import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { describeOnEveryStore } from './_platform.ts'
import { createInvoice, invoiceIn } from './_records.ts'

describeOnEveryStore((newHost) => {
  test("currencyDecimals: money has the host's number of decimals", async () => {
    const host = await newHost({ currencyDecimals: { HUF: 0, TND: 4, XTS: 1 } })
    for (const [currency, total, shown] of [
      ['HUF', '1250', '1250'],
      ['HUF', '1250.00', '1250'],
      ['TND', '0.0001', '0.0001'],
      ['XTS', '5', '5.0'],
      ['EUR', '5', '5.00'],
    ] as const) {
      assert.equal((await createInvoice(host, { currency, total })).total, shown)
    }
    for (const [currency, total] of [
      ['HUF', '1250.5'],
      ['XTS', '0.05'],
      ['EUR', '0.005'],
    ] as const) {
      await assert.rejects(createInvoice(host, { currency, total }), { code: 'invalid_input' })
    }
  })

  test('currencyDecimals: an invoice keeps its decimals even if the option changes', async () => {
    const host = await newHost({ currencyDecimals: { HUF: 0 } })
    const { organizationId, store } = host
    const { id: invoiceId } = await invoiceIn(host, 'issued', { currency: 'HUF', total: '10' })
    const later = createPlatform(store)
    const pay = (amount: string) => later.invoices.recordPayment(organizationId, { invoiceId, amount })
    await assert.rejects(pay('0.50'), { code: 'invalid_input' })
    assert.equal((await pay('9.00')).invoice.amountDue, '1')
    assert.equal((await pay('1')).invoice.status, 'paid')
  })

  test("currencyDecimals: prices of proposals have the host's number of decimals, even if the currency is revised", async () => {
    const host = await newHost({ currencyDecimals: { HUF: 0, JPY: 3 } })
    const { organizationId, platform } = host
    const { create, revise } = platform.proposals
    const proposal = { title: 'Website', currency: 'HUF', total: 10 }
    await assert.rejects(create(organizationId, { ...proposal, total: 10.5 }), { code: 'invalid_input' })
    const { id: proposalId } = await create(organizationId, proposal)
    await assert.rejects(revise(organizationId, { proposalId, total: 10.5 }), { code: 'invalid_input' })
    const revised = await revise(organizationId, { proposalId, currency: 'JPY', total: 10.125 })
    assert.deepEqual([revised.currency, revised.total, revised.version], ['JPY', 10.125, 2])
    await assert.rejects(revise(organizationId, { proposalId, currency: 'HUF' }), { code: 'invalid_input' })
  })

  test('traceparent: the events of calls and publish() carry the current trace to the attempts', async () => {
    let traceparent: string | null = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const host = await newHost({ traceparent: () => traceparent })
    const { organizationId, platform, store } = host
    const endpoint = { url: 'https://hooks.example/' }
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
    })
    await settings.endpoints.register(organizationId, endpoint)
    const { id } = await platform.projects.create(organizationId, {
      name: 'Website',
      billingType: 'fixed',
      value: 1,
    })
    await platform.projects.complete(organizationId, { projectId: id })
    const ticket = { ticketId: 't_1', subject: 'Help', status: 'open' }
    await platform.publish(organizationId, 'support.ticket_created', ticket)
    traceparent = 'nonsense'
    await platform.clients.create(organizationId, { name: 'Atlas' })
    const { deliveries } = await store.deliveries.claim({
      token: randomUUID(),
      isRepeat: false,
      limit: 100,
      maxBytes: 1_000_000,
      capacity: {
        endpoint: 100,
        organization: 0,
        endpoints: {},
        organizations: { [organizationId]: 100 },
      },
      scanLimit: 1000,
      cursor: null,
      leaseMs: 60_000,
      maxAttempts: 5,
    })
    const traces = deliveries.map((delivery) => [delivery.type, delivery.traceparent])
    const first = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    assert.deepEqual(Object.fromEntries(traces), {
      'project.completed': first,
      'support.ticket_created': first,
      'business.created': undefined,
      'client.created': undefined,
    })
  })

  test('clock and ids: new records have the time and ids from the options', async () => {
    let made = 0
    const now = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
    const host = await newHost({
      clock: () => now,
      ids: (kind) => `${kind}_${String(++made).padStart(26, '0')}`,
    })
    const { convertedAt } = await host.platform.clients.create(host.organizationId, { name: 'Atlas' })
    assert.equal(convertedAt, '2026-03-14T09:26:53.589Z')
    for (const { id, createdAt } of await host.events()) {
      assert.match(id, /^evt_0+[1-4]$/)
      assert.equal(createdAt, convertedAt)
    }
  })

  test("ids: an id without its kind is rejected when it's generated, and nothing is written", async () => {
    let made = 0
    const host = await newHost({ ids: (kind) => (kind === 'lead' ? 'abc' : `${kind}_${++made}`) })
    const { platform, organizationId } = host
    const { business } = await platform.clients.create(organizationId, { name: 'Atlas' })
    const before = await host.events()
    await assert.rejects(
      platform.leads.create(organizationId, { businessId: business.id }),
      new TypeError(
        "Option 'ids' must make ids of lead_ and 1 to 59 letters, digits, hyphens and underscores: it made 'abc'",
      ),
    )
    assert.deepEqual((await platform.leads.list(organizationId)).data, [])
    assert.deepEqual(await host.events(), before)
  })
})

test('createPlatform() rejects decimals other than 0 to 4 and codes other than three capital letters', () => {
  const store = createMemoryStore()
  for (const [code, decimals] of [
    ['EUR', 5],
    ['EUR', -1],
    ['EUR', 1.5],
    ['EUR', Number.NaN],
    ['EUR', '2'],
    ['EUR', null],
    ['eur', 2],
    ['EURO', 2],
    ['', 2],
  ] as const) {
    const options = { currencyDecimals: { [code]: decimals } }
    assert.throws(() => Reflect.apply(createPlatform, undefined, [store, options]), {
      name: 'RangeError',
      message: /^Option 'currencyDecimals' must give codes of three capital letters 0 to 4 decimals/,
    })
  }
})

test('createPlatform() only has using() if the store supports transactions', () => {
  assert.equal('using' in createPlatform(createMemoryStore()), false)
})

test('createPlatform() only reads the service until a call is made', () => {
  const store = new Proxy(createMemoryStore(), {
    get(target, name) {
      const isAsked = name === 'using' || name === 'service' || typeof name === 'symbol'
      return isAsked ? Reflect.get(target, name) : assert.fail(`${String(name)} was used`)
    },
  })
  assert.ok(createPlatform(store))
})
