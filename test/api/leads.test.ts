import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Lead } from '../../lib/index.ts'
import {
  assertError,
  assertFields,
  assertRecent,
  BUSINESS_NOT_FOUND,
  comparable,
  idOf,
  ids,
  listOf,
  plainCreation,
  recordOf,
  request,
  seedClients,
  startPlatform,
} from './_api.ts'
import { testList } from './_lists.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/leads'

async function seedBusiness(organizationId: string): Promise<string> {
  const [client] = await seedClients(platform.store, organizationId, 1)
  assert.ok(client)
  return client.businessId
}

async function seedLeads(organizationId: string, leads: Omit<Lead, 'id'>[]): Promise<string[]> {
  const businessId = await seedBusiness(organizationId)
  const records = leads.map((lead) => ({ id: ids('lead'), ...lead, businessId }))
  await Promise.all(records.map((each) => platform.store.leads.create(plainCreation(organizationId, each))))
  return records.map(({ id }) => id)
}

const LEAD: Omit<Lead, 'id'> = {
  stage: 'new',
  leadScore: null,
  scoreBand: null,
  expectedValue: null,
  createdAt: '2026-01-02T03:04:05.006Z',
}

testList(platform, {
  path: PATH,
  seed: (organizationId, count) =>
    seedLeads(
      organizationId,
      Array.from({ length: count }, () => LEAD),
    ),
})

describe('GET /leads', () => {
  test('GET /leads returns all fields of a lead and no others, whether null or not', async () => {
    const { id, key } = await platform.organization()
    const leads: Omit<Lead, 'id'>[] = [
      LEAD,
      { ...LEAD, stage: 'won', leadScore: 62, scoreBand: 'warm', expectedValue: 9500.125 },
      { ...LEAD, leadScore: 0, scoreBand: 'cold', expectedValue: 0 },
    ]
    const leadIds = await seedLeads(id, leads)
    const expected = leads.map((lead, index) => ({ id: leadIds[index], ...lead }))
    const listed = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(listed, expected.toReversed())
    assert.deepEqual(Object.keys(listed[0] ?? {}), [
      'id',
      'stage',
      'leadScore',
      'scoreBand',
      'expectedValue',
      'createdAt',
    ])
  })
})

describe('POST /leads', () => {
  test('POST /leads responds with 200 and the new lead for an existing business', async () => {
    const { id, key } = await platform.organization()
    const businessId = await seedBusiness(id)
    const answer = await request(platform.api, PATH, { key, json: { businessId } })
    assert.equal(answer.status, 200)
    const lead = recordOf(answer)
    assert.match(String(lead.id), idOf('lead'))
    assertRecent(lead.createdAt)
    assert.deepEqual(lead, {
      id: lead.id,
      stage: 'new',
      leadScore: null,
      scoreBand: null,
      expectedValue: null,
      createdAt: lead.createdAt,
    })
  })

  test('POST /leads accepts a business created by POST /clients', async () => {
    const { key } = await platform.organization()
    const { business } = recordOf(
      await request(platform.api, '/api/v1/clients', { key, json: { name: 'Atlas' } }),
    )
    assertFields(business)
    const lead = recordOf(await request(platform.api, PATH, { key, json: { businessId: business.id } }))
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), [lead])
  })

  test('POST /leads can create two leads for one business', async () => {
    const { id, key } = await platform.organization()
    const json = { businessId: await seedBusiness(id) }
    const first = recordOf(await request(platform.api, PATH, { key, json }))
    const second = recordOf(await request(platform.api, PATH, { key, json }))
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), [second, first])
  })

  test('POST /leads publishes lead.created', async () => {
    const { id, key } = await platform.organization()
    const businessId = await seedBusiness(id)
    const lead = recordOf(await request(platform.api, PATH, { key, json: { businessId } }))
    const events =
      await platform.sql`select type, body from business_api.events where organization_id = ${id}`
    assert.equal(events.length, 1)
    assert.equal(events[0]?.type, 'lead.created')
    assert.deepEqual(JSON.parse(events[0]?.body).data, { leadId: lead.id, businessId, lead })
  })

  test("POST /leads responds with 404 for a business that doesn't exist and writes nothing", async () => {
    const { id, key } = await platform.organization()
    assertError(await request(platform.api, PATH, { key, json: { businessId: ids('biz') } }), 404)
    const [written] = await platform.sql`
      select
        (select count(*)::int from business_api.leads where organization_id = ${id}) as leads,
        (select count(*)::int from business_api.events where organization_id = ${id}) as events`
    assert.deepEqual({ ...written }, { leads: 0, events: 0 })
  })

  test('POST /leads responds the same for a business of another organization as for an unknown one', async () => {
    const [ours, theirs] = [await platform.organization(), await platform.organization()]
    const foreign = await request(platform.api, PATH, {
      key: ours.key,
      json: { businessId: await seedBusiness(theirs.id) },
    })
    const unknown = await request(platform.api, PATH, { key: ours.key, json: { businessId: ids('biz') } })
    assertError(foreign, 404)
    assert.deepEqual(comparable(foreign), comparable(unknown))
  })

  test("POST /leads responds with 404 for any string that isn't the id of a business", async () => {
    const { id, key } = await platform.organization()
    const [client] = await seedClients(platform.store, id, 1)
    for (const businessId of [
      '',
      ' ',
      'x',
      '%',
      client?.id,
      `${client?.businessId} `,
      '🏺',
      'b'.repeat(60_000),
    ]) {
      assertError(await request(platform.api, PATH, { key, json: { businessId } }), 404, BUSINESS_NOT_FOUND)
    }
  })
})
