import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { newClient } from '../../lib/resources/clients.ts'
import { businessOf } from '../_business.ts'
import {
  assertFields,
  assertRecent,
  assertSafeHeaders,
  idOf,
  ids,
  listOf,
  plainCreation,
  recordOf,
  request,
  seedClients,
  startPlatform,
  TIMESTAMP,
} from './_api.ts'
import { testList } from './_lists.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/clients'

testList(platform, {
  path: PATH,
  seed: async (organizationId, count) =>
    (await seedClients(platform.store, organizationId, count)).map(({ id }) => id),
})

describe('POST /clients', () => {
  test('POST /clients responds with 200, not 201, and the created record in data', async () => {
    const { key } = await platform.organization()
    const answer = await request(platform.api, PATH, { key, json: { name: 'Atlas Ceramics' } })
    assert.equal(answer.status, 200)
    assertSafeHeaders(answer)
    assert.equal(answer.headers.get('location'), null)
    assert.equal(answer.headers.get('idempotent-replayed'), null)
    recordOf(answer)
  })

  test('POST /clients returns all fields of a client and no others', async () => {
    const { key } = await platform.organization()
    const business = {
      name: 'Atlas Ceramics',
      category: 'Manufacturing',
      city: 'Tunis',
      email: 'hello@atlas.example',
      phone: '+216 71 000 000',
    }
    const client = recordOf(await request(platform.api, PATH, { key, json: business }))
    const { id, convertedAt, business: created } = client
    assert.match(String(id), idOf('cli'))
    assertRecent(convertedAt)
    assertFields(created)
    assert.match(String(created.id), idOf('biz'))
    assert.deepEqual(client, {
      id,
      status: 'active',
      totalRevenue: 0,
      monthlyRevenue: 0,
      convertedAt,
      business: { id: created.id, ...business },
    })
  })

  test('POST /clients returns null for optional business fields', async () => {
    const { key } = await platform.organization()
    const { business } = recordOf(await request(platform.api, PATH, { key, json: { name: 'Atlas' } }))
    assertFields(business)
    assert.deepEqual(business, businessOf({ id: String(business.id), name: 'Atlas' }))
  })

  test('POST /clients stores strings as given', async () => {
    const { key } = await platform.organization()
    const given = {
      name: '  O\'Brien & "Söhne" <b>株式会社</b> \\ 🏺 ',
      category: '\t\n\r\u2028\u0001',
      city: 'e\u0301 is not \u00e9',
      email: "O'H@XN--CAF-DMA.example",
      phone: '',
    }
    const created = recordOf(await request(platform.api, PATH, { key, json: given }))
    const [listed] = listOf(await request(platform.api, PATH, { key }))
    assertFields(created.business)
    assert.deepEqual(created.business, businessOf({ id: String(created.business.id), ...given }))
    assert.deepEqual(listed, created)
  })

  test('POST /clients creates two clients for two identical requests without an idempotency key', async () => {
    const { key } = await platform.organization()
    const json = { name: 'Twice' }
    const [first, second] = [
      recordOf(await request(platform.api, PATH, { key, json })),
      recordOf(await request(platform.api, PATH, { key, json })),
    ]
    assert.notEqual(first.id, second.id)
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), [second, first])
  })

  test('POST /clients publishes business.created, then client.created', async () => {
    const { id, key } = await platform.organization()
    const client = recordOf(await request(platform.api, PATH, { key, json: { name: 'Atlas' } }))
    const events = await platform.sql`
      select type, body from business_api.events where organization_id = ${id} order by id`
    assert.deepEqual(
      events.map(({ type }) => type),
      ['business.created', 'client.created'],
    )
    assertFields(client.business)
    assert.deepEqual(JSON.parse(events[0]?.body).data, {
      businessId: client.business.id,
      business: client.business,
    })
    assert.deepEqual(JSON.parse(events[1]?.body).data, {
      clientId: client.id,
      businessId: client.business.id,
      client,
    })
  })
})

describe('GET /clients', () => {
  test('GET /clients returns a created client exactly as POST did', async () => {
    const { key } = await platform.organization()
    const json = { name: 'Atlas Ceramics', city: 'Tunis' }
    const created = recordOf(await request(platform.api, PATH, { key, json }))
    assert.deepEqual(listOf(await request(platform.api, PATH, { key })), [created])
  })

  test('GET /clients returns the fields in the order of the specification', async () => {
    const { key } = await platform.organization()
    await request(platform.api, PATH, { key, json: { name: 'Atlas' } })
    const [client] = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(Object.keys(client ?? {}), [
      'id',
      'status',
      'totalRevenue',
      'monthlyRevenue',
      'convertedAt',
      'business',
    ])
    assert.deepEqual(Object.keys(client?.business ?? {}), [
      'id',
      'name',
      'category',
      'city',
      'email',
      'phone',
    ])
  })

  test('GET /clients returns revenue as exact JSON numbers', async () => {
    const { id, key } = await platform.organization()
    for (const [totalRevenue, monthlyRevenue] of [
      [0, 0.001],
      [18250.5, 1200],
      [999_999_999_999.999, 100],
    ] as const) {
      const { record } = newClient({ name: 'Rich' }, { ids, now: Date.now() })
      await platform.store.clients.create(plainCreation(id, { ...record, totalRevenue, monthlyRevenue }))
    }
    const clients = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(
      clients.map(({ totalRevenue, monthlyRevenue }) => [totalRevenue, monthlyRevenue]),
      [
        [999_999_999_999.999, 100],
        [18250.5, 1200],
        [0, 0.001],
      ],
    )
  })

  test('GET /clients returns convertedAt in UTC with milliseconds, whatever time zone the database uses', async () => {
    const { id, key } = await platform.organization()
    const now = Date.UTC(2026, 2, 29, 0, 30, 0, 7)
    await platform.store.clients.create(plainCreation(id, newClient({ name: 'Atlas' }, { ids, now }).record))
    const [client] = listOf(await request(platform.api, PATH, { key }))
    assert.match(String(client?.convertedAt), TIMESTAMP)
    assert.equal(client?.convertedAt, '2026-03-29T00:30:00.007Z')
  })
})
