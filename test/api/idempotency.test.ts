import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { newEntry } from '../_audit.ts'
import {
  type Answer,
  assertError,
  assertFields,
  idOf,
  ids,
  listOf,
  type Organization,
  rawHead,
  rawRequest,
  recordOf,
  request,
  seedClients,
} from './_api.ts'
import {
  api,
  assertReplay,
  CLIENTS,
  clientsOf,
  eventsOf,
  LEADS,
  MISMATCH,
  platform,
  post,
  server,
} from './_idempotency.ts'

describe('A replay', () => {
  test('POST /clients with the same key returns the same bytes and creates nothing', async () => {
    const organization = await platform.organization()
    const json = { name: 'Atlas 🏺', city: 'Tunis', email: "o'h@x.com" }
    const original = await post(CLIENTS, organization, 'form-1', json)
    assert.equal(original.headers.get('idempotent-replayed'), null)
    for (let retry = 0; retry < 3; retry++) {
      assertReplay(await post(CLIENTS, organization, 'form-1', json), original)
    }
    assert.deepEqual(await clientsOf(organization), [recordOf(original)])
    assert.deepEqual(await eventsOf(organization), ['business.created', 'client.created'])
  })

  test('POST /leads with the same key returns the same bytes and creates nothing', async () => {
    const organization = await platform.organization()
    const [client] = await seedClients(platform.store, organization.id, 1)
    const json = { businessId: client?.businessId }
    const original = await post(LEADS, organization, 'form-1', json)
    assertReplay(await post(LEADS, organization, 'form-1', json), original)
    assert.deepEqual(listOf(await request(api, LEADS, { key: organization.key })), [recordOf(original)])
    assert.deepEqual(await eventsOf(organization), ['lead.created'])
  })

  test('A replay returns the first response even if the record has changed', async () => {
    const organization = await platform.organization()
    const [client] = await seedClients(platform.store, organization.id, 1)
    const json = { businessId: client?.businessId }
    const original = await post(LEADS, organization, 'form-1', json)
    const { id } = organization
    await platform.sql`update business_api.leads set stage = 'won' where organization_id = ${id}`
    assertReplay(await post(LEADS, organization, 'form-1', json), original)
    await platform.sql`delete from business_api.leads where organization_id = ${id}`
    await platform.sql`delete from business_api.businesses where organization_id = ${id}`
    assertReplay(await post(LEADS, organization, 'form-1', json), original)
  })

  test('A replay through another store with the same database is the same', async () => {
    const organization = await platform.organization()
    const json = { name: 'Atlas' }
    const original = await post(CLIENTS, organization, 'form-1', json)
    const elsewhere = platform.apiWith({}, platform.anotherStore())
    const headers = { 'Idempotency-Key': 'form-1' }
    assertReplay(await request(elsewhere, CLIENTS, { key: organization.key, json, headers }), original)
  })

  test('The idempotency key belongs to the organization, not the API key, so a rotated API key can replay', async () => {
    const organization = await platform.organization()
    const json = { name: 'Atlas' }
    const original = await post(CLIENTS, organization, 'form-1', json)
    const rotated = await organization.createKey()
    await platform.store.apiKeys.revoke({
      organizationId: organization.id,
      keyId: organization.keyId,
      entry: newEntry(),
    })
    assertReplay(await post(CLIENTS, rotated, 'form-1', json), original)
  })

  test('Two organizations can create a client each with the same key', async () => {
    const [ours, theirs] = [await platform.organization(), await platform.organization()]
    const json = { name: 'Atlas' }
    const [first, second] = [
      await post(CLIENTS, ours, 'form-1', json),
      await post(CLIENTS, theirs, 'form-1', json),
    ]
    assert.equal(second.headers.get('idempotent-replayed'), null)
    assert.notEqual(recordOf(first).id, recordOf(second).id)
    assertError(await post(CLIENTS, theirs, 'form-1', { name: 'Other' }), 422, MISMATCH)
  })

  test('The same key works for POST /clients and then for POST /leads', async () => {
    const organization = await platform.organization()
    const created = await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    const { business } = recordOf(created)
    assertFields(business)
    const lead = await post(LEADS, organization, 'form-1', { businessId: business.id })
    assert.match(String(recordOf(lead).id), idOf('lead'))
    assert.equal(lead.headers.get('idempotent-replayed'), null)
    assertReplay(await post(CLIENTS, organization, 'form-1', { name: 'Atlas' }), created)
    assertReplay(await post(LEADS, organization, 'form-1', { businessId: business.id }), lead)
  })

  test("A query string doesn't make it a different operation", async () => {
    const organization = await platform.organization()
    const original = await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    assertReplay(await post(`${CLIENTS}?x=1`, organization, 'form-1', { name: 'Atlas' }), original)
  })

  test('Nothing is replayed without a key', async () => {
    const organization = await platform.organization()
    const options = { key: organization.key, json: { name: 'Atlas' } }
    await request(api, CLIENTS, options)
    await request(api, CLIENTS, options)
    assert.equal((await clientsOf(organization)).length, 2)
  })

  test('GET ignores the header, whatever its value', async () => {
    const organization = await platform.organization()
    for (const value of ['form-1', '', 'a b', 'x'.repeat(300)]) {
      const answer = await request(api, CLIENTS, {
        key: organization.key,
        headers: { 'Idempotency-Key': value },
      })
      assert.equal(answer.status, 200)
      assert.equal(answer.headers.get('idempotent-replayed'), null)
    }
  })

  test('A replay requires the scope', async () => {
    const organization = await platform.organization()
    const poor = await organization.createKey({ scopes: ['clients:read', 'leads:write'] })
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    assertError(await post(CLIENTS, poor, 'form-1', { name: 'Atlas' }), 403)
  })

  test('A replay counts against the rate limit', async () => {
    const organization = await platform.organization()
    const strict = platform.apiWith({ rateLimit: { key: { perSecond: 0.01, burst: 3 } } })
    const options = {
      key: organization.key,
      json: { name: 'Atlas' },
      headers: { 'Idempotency-Key': 'form-1' },
    }
    const statuses: number[] = []
    for (let attempt = 0; attempt < 4; attempt++)
      statuses.push((await request(strict, CLIENTS, options)).status)
    assert.deepEqual(statuses, [200, 200, 200, 429])
  })
})

describe('The fingerprint', () => {
  test('The same key with a different body is 422 and changes nothing', async () => {
    const organization = await platform.organization()
    const original = await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    for (const json of [
      { name: 'Atlas ' },
      { name: 'atlas' },
      { name: 'Atlas', city: 'Tunis' },
      { name: 'Atlas', city: '' },
      { name: 'Atlas', phone: 'Atlas' },
    ]) {
      const answer = await post(CLIENTS, organization, 'form-1', json)
      assertError(answer, 422, MISMATCH)
      assert.equal(answer.headers.get('idempotent-replayed'), null)
    }
    assertReplay(await post(CLIENTS, organization, 'form-1', { name: 'Atlas' }), original)
    assert.equal((await clientsOf(organization)).length, 1)
  })

  test('A body with two values swapped is a different body', async () => {
    const organization = await platform.organization()
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas', category: 'a', city: 'b' })
    assertError(
      await post(CLIENTS, organization, 'form-1', { name: 'Atlas', category: 'b', city: 'a' }),
      422,
      MISMATCH,
    )
  })

  test("The order of fields, white space, escapes and repeated fields don't matter", async () => {
    const organization = await platform.organization()
    const headers = { 'Idempotency-Key': 'form-1' }
    const send = (body: string) => request(api, CLIENTS, { key: organization.key, body, headers })
    const original = await send('{"name":"Atlas","city":"Tunis"}')
    for (const body of [
      '{"city":"Tunis","name":"Atlas"}',
      ' { "name" : "Atlas",\n"city":"Tunis" } ',
      '{"name":"\\u0041tlas","city":"Tunis"}',
      '{"name":"Other","city":"Tunis","name":"Atlas"}',
    ]) {
      assertReplay(await send(body), original)
    }
  })

  test("Unknown fields don't matter", async () => {
    const organization = await platform.organization()
    const original = await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    for (const unknown of [
      { submittedAt: 1 },
      { id: 'x', status: 'y' },
      { organizationId: 'z' },
      { Name: 'Other' },
    ]) {
      assertReplay(await post(CLIENTS, organization, 'form-1', { ...unknown, name: 'Atlas' }), original)
    }
  })
})

describe('The format of a key', () => {
  for (const [what, value] of [
    ['1 character', 'x'],
    ['200 characters', 'x'.repeat(200)],
    [
      'every visible ASCII character',
      String.fromCharCode(...Array.from({ length: 94 }, (_, index) => 33 + index)),
    ],
    ['a comma', 'a,b'],
    ['quotes and braces', '"{\'}"'],
    ['a quote and a semicolon', "';drop/**/table/**/business_api.businesses;--"],
    ['a percent sign', '%00%zz'],
  ] as const) {
    test(`A key of ${what} is accepted unchanged`, async () => {
      const organization = await platform.organization()
      const original = await post(CLIENTS, organization, value, { name: 'Atlas' })
      assert.equal(original.status, 200, original.text)
      assertReplay(await post(CLIENTS, organization, value, { name: 'Atlas' }), original)
    })
  }

  test('Keys are case-sensitive', async () => {
    const organization = await platform.organization()
    await post(CLIENTS, organization, 'Form', { name: 'Atlas' })
    assert.equal((await post(CLIENTS, organization, 'form', { name: 'Other' })).status, 200)
  })

  const INVALID = /^Validation failed: Idempotency-Key must /

  for (const [what, value] of [
    ['nothing', ''],
    ['201 characters', 'x'.repeat(201)],
    ['10,000 characters', 'x'.repeat(10_000)],
    ['a space inside', 'a b'],
    ['a comma and a space', 'a, b'],
    ['a tab inside', 'a\tb'],
    ['a character beyond ASCII', 'caf\u00e9'],
    ['a no-break space', 'a\u00a0b'],
    ['the character after the last visible one', 'a\u0080'],
  ] as const) {
    test(`A key of ${what} is 422`, async () => {
      const organization = await platform.organization()
      assertError(await post(CLIENTS, organization, value, { name: 'Atlas' }), 422, INVALID)
      assert.deepEqual(await clientsOf(organization), [])
    })
  }

  function rawPost(organization: Organization, ...headers: (string | Buffer)[]): Promise<Answer> {
    const body = '{"name":"Atlas"}'
    const head = rawHead(
      `POST ${CLIENTS}`,
      `Authorization: Bearer ${organization.key}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ).slice(0, -2)
    const lines = headers.map((header) => Buffer.concat([Buffer.from(header), Buffer.from('\r\n')]))
    return rawRequest(server, Buffer.concat([Buffer.from(head), ...lines, Buffer.from(`\r\n${body}`)]))
  }

  test('Sending the header twice is 422, whether the values differ or not', async () => {
    const organization = await platform.organization()
    for (const second of ['b', 'a', '']) {
      const answer = await rawPost(organization, 'Idempotency-Key: a', `idempotency-key: ${second}`)
      assertError(answer, 422, INVALID)
    }
    assert.deepEqual(await clientsOf(organization), [])
  })

  test('An empty header sent over a socket is 422', async () => {
    const organization = await platform.organization()
    assertError(await rawPost(organization, 'Idempotency-Key:'), 422, INVALID)
    assertError(await rawPost(organization, 'Idempotency-Key:   '), 422, INVALID)
  })

  test('UTF-8 sent over a socket is 422', async () => {
    const organization = await platform.organization()
    assertError(await rawPost(organization, Buffer.from('Idempotency-Key: 🏺')), 422, INVALID)
  })

  test('White space around the value is ignored', async () => {
    const organization = await platform.organization()
    const original = await rawPost(organization, 'Idempotency-Key:   form-1  ')
    assertReplay(await rawPost(organization, 'Idempotency-Key:form-1'), original)
  })
})

describe("Responses that aren't recorded", () => {
  test("A 404 isn't: the lead can be created with the same key once its business exists", async () => {
    const organization = await platform.organization()
    const businessId = ids('biz')
    const first = await post(LEADS, organization, 'form-1', { businessId })
    assertError(first, 404)
    await platform.sql`
      insert into business_api.businesses (organization_id, id, name) values (${organization.id}, ${businessId}, 'New')`
    const second = await post(LEADS, organization, 'form-1', { businessId })
    assert.equal(second.headers.get('idempotent-replayed'), null)
    recordOf(second)
    assertReplay(await post(LEADS, organization, 'form-1', { businessId }), second)
  })

  test("A 404 isn't: the same key can be used with a different body afterwards", async () => {
    const organization = await platform.organization()
    const [client] = await seedClients(platform.store, organization.id, 1)
    assertError(await post(LEADS, organization, 'form-1', { businessId: 'unknown' }), 404)
    recordOf(await post(LEADS, organization, 'form-1', { businessId: client?.businessId }))
  })

  test("401, 403, 413, 415, 400, 422 and 429 aren't", async () => {
    const organization = await platform.organization()
    const poor = await organization.createKey({ scopes: [] })
    const strict = platform.apiWith({ rateLimit: { key: { perSecond: 0.01, burst: 1 } } })
    const exhausted = await organization.createKey()
    await request(strict, CLIENTS, { key: exhausted.key })
    const { key } = organization
    const headers = { 'Idempotency-Key': 'form-1' }
    const body = '{"name":"Atlas"}'
    assertError(await request(api, CLIENTS, { key: 'bad', body, headers }), 401)
    assertError(await request(api, CLIENTS, { key: poor.key, body, headers }), 403)
    assertError(await request(strict, CLIENTS, { key: exhausted.key, body, headers }), 429)
    assertError(await request(api, CLIENTS, { key, body: ' '.repeat(70_000), headers }), 413)
    assertError(
      await request(api, CLIENTS, { key, body, headers: { ...headers, 'Content-Type': 'text/plain' } }),
      415,
    )
    assertError(await request(api, CLIENTS, { key, body: '{', headers }), 400)
    assertError(await request(api, CLIENTS, { key, body: '{}', headers }), 422)
    const [entries] = await platform.sql`
      select count(*)::int from business_api.idempotency_keys where organization_id = ${organization.id}`
    assert.equal(entries?.count, 0)
    const created = await request(api, CLIENTS, { key, body, headers })
    assert.equal(created.headers.get('idempotent-replayed'), null)
    recordOf(created)
  })
})
