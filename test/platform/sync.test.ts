import assert from 'node:assert/strict'
import { test } from 'node:test'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { RESOURCES, type Resource, SCOPES, type Scope } from '../../lib/access/scopes.ts'
import { createIds } from '../../lib/base/ids.ts'
import { newEntry } from '../_audit.ts'
import { businessOf } from '../_business.ts'
import { CALLS, type CallUnderTest, invoke } from './_calls.ts'
import { describeOnEveryStore, type Host } from './_platform.ts'

// After every call of the platform that changes what the API shows, the next poll returns the record.

type Step = (host: Host, ids: Map<string, string>) => Promise<readonly (readonly [Resource, string])[]>

const DUE = '2001-01-01T00:00:00.000Z'

/** Makes a call for a record created earlier, and returns the changed record. */
function on(resource: Resource, name: string, act: (host: Host, id: string) => Promise<unknown>): Step {
  return async (host, ids) => {
    const id = ids.get(name) ?? ''
    await act(host, id)
    return [[resource, id]]
  }
}

function make(resource: Resource, name: string, act: (host: Host) => Promise<{ readonly id: string }>): Step {
  return async (host, ids) => {
    const { id } = await act(host)
    ids.set(name, id)
    return [[resource, id]]
  }
}

const invoice = (name: string) =>
  make('invoices', name, ({ platform, organizationId: org }) =>
    platform.invoices.create(org, { currency: 'EUR', total: '10.00', dueDate: DUE, issueDate: DUE }),
  )
const issue = (name: string) =>
  on('invoices', name, ({ platform, organizationId: org }, invoiceId) =>
    platform.invoices.issue(org, { invoiceId, issueDate: DUE }),
  )
const proposal = (name: string) =>
  make('proposals', name, ({ platform, organizationId: org }) =>
    platform.proposals.create(org, { title: 'Relaunch', total: 1, monthlyTotal: 0, currency: 'EUR' }),
  )
const send = (name: string) =>
  on('proposals', name, ({ platform, organizationId: org }, proposalId) =>
    platform.proposals.send(org, { proposalId }),
  )
/** A call that changes the record it returns. */
function stepOf(under: CallUnderTest): Step {
  return async (host) => {
    const ref = under.idField === undefined ? {} : { [under.idField]: await under.make(host) }
    const [resource = ''] = under.name.split('.')
    return [[resource as Resource, Reflect.get(Object(await invoke(host, under, ref)), 'id')]]
  }
}

/** Calls whose order matters or which change records other than the one they return. */
const STEPS: Readonly<Record<string, Step>> = {
  'clients.create': async ({ platform, organizationId }, ids) => {
    const { id, business } = await platform.clients.create(organizationId, { name: 'Atlas' })
    ids.set('client', id).set('business of client', business.id)
    return [['clients', id]]
  },
  'clients.setStatus': on('clients', 'client', ({ platform, organizationId: org }, clientId) =>
    platform.clients.setStatus(org, { clientId, status: 'inactive' }),
  ),
  'clients.setRevenue': on('clients', 'client', ({ platform, organizationId: org }, clientId) =>
    platform.clients.setRevenue(org, { clientId, totalRevenue: 5 }),
  ),
  'businesses.update': async ({ platform, organizationId }, ids) => {
    const businessId = ids.get('business of client') ?? ''
    await platform.businesses.update(organizationId, { businessId, city: 'Sfax' })
    return [['clients', ids.get('client') ?? '']]
  },
  'businesses.create, leads.create': async ({ platform, organizationId }, ids) => {
    const { id: businessId } = await platform.businesses.create(organizationId, { name: 'Byrsa' })
    const { id } = await platform.leads.create(organizationId, { businessId })
    ids.set('lead', id)
    return [['leads', id]]
  },
  'leads.setStage': on('leads', 'lead', ({ platform, organizationId: org }, leadId) =>
    platform.leads.setStage(org, { leadId, stage: 'qualified' }),
  ),
  'leads.setScore': on('leads', 'lead', ({ platform, organizationId: org }, leadId) =>
    platform.leads.setScore(org, { leadId, leadScore: 50 }),
  ),
  'leads.convert': async ({ platform, organizationId }, ids) => {
    const { lead, client } = await platform.leads.convert(organizationId, { leadId: ids.get('lead') ?? '' })
    return [
      ['leads', lead.id],
      ['clients', client.id],
    ]
  },
  'proposals.create': proposal('proposal'),
  'proposals.send': send('proposal'),
  'proposals.reject': on('proposals', 'proposal', ({ platform, organizationId: org }, proposalId) =>
    platform.proposals.reject(org, { proposalId }),
  ),
  'proposals.revise': on('proposals', 'proposal', ({ platform, organizationId: org }, proposalId) =>
    platform.proposals.revise(org, { proposalId, title: 'Second' }),
  ),
  'proposals.send again': send('proposal'),
  'proposals.accept': on('proposals', 'proposal', ({ platform, organizationId: org }, proposalId) =>
    platform.proposals.accept(org, { proposalId, signedBy: 'Elissa' }),
  ),
  'invoices.create': invoice('invoice'),
  'invoices.issue': issue('invoice'),
  'invoices.markOverdue': on('invoices', 'invoice', ({ platform, organizationId: org }) =>
    platform.invoices.markOverdue(org),
  ),
  'invoices.recordPayment of a part': on(
    'invoices',
    'invoice',
    ({ platform, organizationId: org }, invoiceId) =>
      platform.invoices.recordPayment(org, { invoiceId, amount: '4' }),
  ),
  'invoices.recordPayment of the rest': on(
    'invoices',
    'invoice',
    ({ platform, organizationId: org }, invoiceId) =>
      platform.invoices.recordPayment(org, { invoiceId, amount: '6' }),
  ),
  'invoices.reversePayment': on(
    'invoices',
    'invoice',
    async ({ platform, organizationId: org }, invoiceId) => {
      const [payment] = (await platform.invoices.payments(org, invoiceId)).data
      await platform.invoices.reversePayment(org, { invoiceId, paymentId: payment?.id ?? '' })
    },
  ),
  'invoices.create another': invoice('void'),
  'invoices.void': on('invoices', 'void', ({ platform, organizationId: org }, invoiceId) =>
    platform.invoices.void(org, { invoiceId }),
  ),
}

describeOnEveryStore((newHost) => {
  test('a poll for changes returns every record after each call of the platform that changes it', async () => {
    const host = await newHost()
    const poll = await createPoller(host)
    await poll()
    const ids = new Map<string, string>()
    const known = Object.keys(STEPS).flatMap((name) => name.split(/[, ]+/))
    const others = CALLS.filter(({ name }) => !known.includes(name)).map(
      (call) => [call.name, stepOf(call)] as const,
    )
    for (const [call, step] of [...Object.entries(STEPS), ...others]) {
      const changed = await step(host, ids)
      const shown = await poll()
      for (const [resource, id] of changed) {
        const expected = (await host.list(resource)).find((record) => record.id === id)
        assert.notEqual(expected, undefined, call)
        assert.deepEqual(shown.get(resource)?.get(id), expected, call)
      }
    }
    // Every call that returns a record was made.
    known.push(...others.map(([name]) => name))
    for (const resource of [...RESOURCES, 'businesses'] as const) {
      for (const call of Object.keys(host.platform[resource])) {
        if (/^(list|get|payments|count|signature)/.test(call)) continue
        assert.ok(known.includes(`${resource}.${call}`), `${resource}.${call} has no step`)
      }
    }
  })

  test('businesses.update() changes the given fields in the business, its client and a new lead', async () => {
    const { platform, organizationId: org, list } = await newHost()
    const { business } = await platform.clients.create(org, {
      name: 'Atlas',
      city: 'Tunis',
      email: 'a@b.example',
      phone: '1',
    })
    const updated = await platform.businesses.update(org, {
      businessId: business.id,
      name: 'Atlas & "Söhne"',
      city: null,
      phone: '',
    })
    assert.deepEqual(updated, { ...business, name: 'Atlas & "Söhne"', city: null, phone: '' })
    assert.deepEqual((await list('clients'))[0]?.business, updated)
    const lead = await platform.leads.create(org, { businessId: business.id })
    const { client } = await platform.leads.convert(org, { leadId: lead.id })
    assert.deepEqual(client.business, updated)
  })

  test("businesses.update() works for a business that is no client, but not for another organization's", async () => {
    const [{ platform, organizationId: org }, other] = [await newHost(), await newHost()]
    const { id: businessId } = await platform.businesses.create(org, { name: 'Byrsa' })
    assert.deepEqual(
      await platform.businesses.update(org, { businessId, category: 'Trade' }),
      businessOf({ id: businessId, name: 'Byrsa', category: 'Trade' }),
    )
    for (const id of ['', 'biz_unknown', businessId]) {
      const refused = other.platform.businesses.update(other.organizationId, { businessId: id, name: 'Mine' })
      await assert.rejects(refused, { code: 'not_found' })
    }
    for (const wrong of [
      { name: 'x' },
      { name: null },
      { email: 'no' },
      { city: 'x'.repeat(81) },
      { phone: 1 },
    ]) {
      const refused = platform.businesses.update(org, { businessId, ...(wrong as object) })
      await assert.rejects(refused, { code: 'invalid_input' }, JSON.stringify(wrong))
    }
  })

  test('businesses.update() with an idempotency key changes once and returns the first result again', async () => {
    const { platform, organizationId: org } = await newHost()
    const { id: businessId } = await platform.businesses.create(org, { name: 'Byrsa' })
    const first = { businessId, city: 'Tunis', idempotencyKey: 'k' }
    const answer = await platform.businesses.update(org, first)
    await platform.businesses.update(org, { businessId, city: 'Sfax' })
    assert.deepEqual(await platform.businesses.update(org, first), answer)
    assert.equal((await platform.businesses.update(org, { businessId })).city, 'Sfax')
  })
})

type Shown = Map<Resource, Map<unknown, Record<string, unknown>>>

/** Polls every resource from the position of the previous poll. */
async function createPoller({ store, organizationId }: Host): Promise<() => Promise<Shown>> {
  const key = generateApiKey('bapi', 0)
  const keyDigest = digestApiKey(key)
  await store.apiKeys.insert({
    organizationId,
    limit: 1000,
    key: {
      id: createIds()('key'),
      digest: keyDigest,
      name: 'Sync',
      scopes: [...SCOPES],
      prefix: 'bapi_live_',
      lastFour: key.slice(-4),
      rateLimit: null,
      createdAt: new Date().toISOString(),
      expiresAt: null,
    },
    entry: newEntry(),
  })
  const positions = new Map<Resource, string>()
  return async () => {
    const shown: Shown = new Map()
    for (const resource of RESOURCES) {
      const scope: Scope = `${resource}:read`
      const since = { position: positions.get(resource) ?? '' }
      const answer = await store[resource].admitAndList(
        { keyDigest, scope, rateLimits: null },
        { limit: 200, since },
      )
      assert.equal(answer.next, null)
      positions.set(resource, answer.position ?? '')
      const records: Record<string, unknown>[] = JSON.parse(String(answer.page))
      shown.set(resource, new Map(records.map((record) => [record.id, record])))
    }
    return shown
  }
}
