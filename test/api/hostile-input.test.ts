import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertError, assertFields, listOf, recordOf, request, seedClients } from './_api.ts'
import { api, assertCreated, assertInvalid, platform, postClientText, postLeadText } from './_validation.ts'

describe("POST /clients, characters that can't be stored", () => {
  for (const field of ['name', 'category', 'city', 'email', 'phone']) {
    for (const [what, text] of [
      ['NUL', 'a\\u0000b'],
      ['a lone high surrogate', 'ab\\ud800'],
      ['a lone low surrogate', '\\udc00ab'],
      ['surrogates the wrong way round', 'a\\udc00\\ud800b'],
    ]) {
      test(`POST /clients rejects ${what} in ${field}`, async () => {
        const value = field === 'email' ? `${text}@example.com` : text
        const named = field === 'name' ? '' : '"name":"Atlas",'
        await assertInvalid(postClientText(`{${named}"${field}":"${value}"}`), field)
      })
    }
  }

  test('POST /clients accepts a surrogate pair written as escapes', async () => {
    await assertCreated(postClientText('{"name":"a\\ud83c\\udffab"}'), { name: 'a🏺b' })
  })

  test('POST /clients accepts NUL and lone surrogates in ignored fields', async () => {
    await assertCreated(postClientText('{"name":"Atlas","x\\u0000\\ud800":"\\u0000\\udc00"}'))
  })
})

describe('Unknown fields', () => {
  test("POST /clients ignores unknown fields and doesn't store them", async () => {
    const { id, key } = await platform.organization()
    const json = {
      name: 'Atlas',
      nickname: 'marker-4711',
      tags: ['marker-4711'],
      business: { name: 'marker-4711' },
    }
    const answer = await request(api, '/api/v1/clients', { key, json })
    assert.doesNotMatch(answer.text, /marker-4711/)
    recordOf(answer)
    const rows = await platform.sql`
      select to_jsonb(b)::text as row from business_api.businesses b where organization_id = ${id}
      union all select to_jsonb(e)::text from business_api.events e where organization_id = ${id}`
    assert.equal(rows.length, 3)
    for (const { row } of rows) assert.doesNotMatch(row, /marker-4711/)
  })

  test("POST /clients doesn't let the body set id, status, organization or revenue", async () => {
    const [ours, theirs] = [await platform.organization(), await platform.organization()]
    const json = {
      id: 'cli_chosen',
      status: 'inactive',
      organizationId: theirs.id,
      organization_id: theirs.id,
      totalRevenue: 5,
      monthlyRevenue: 5,
      convertedAt: '2000-01-01T00:00:00.000Z',
      business: { id: 'biz_chosen' },
      businessId: 'biz_chosen',
      name: 'Atlas',
    }
    const client = recordOf(await request(api, '/api/v1/clients', { key: ours.key, json }))
    assert.notEqual(client.id, 'cli_chosen')
    assert.equal(client.status, 'active')
    assert.equal(client.totalRevenue, 0)
    assert.equal(client.monthlyRevenue, 0)
    assert.notEqual(client.convertedAt, json.convertedAt)
    assertFields(client.business)
    assert.notEqual(client.business.id, 'biz_chosen')
    assert.deepEqual(listOf(await request(api, '/api/v1/clients', { key: ours.key })), [client])
    assert.deepEqual(listOf(await request(api, '/api/v1/clients', { key: theirs.key })), [])
  })

  test("POST /leads doesn't let the body set id, stage, score or organization", async () => {
    const [ours, theirs] = [await platform.organization(), await platform.organization()]
    const [client] = await seedClients(platform.store, ours.id, 1)
    const json = {
      businessId: client?.businessId,
      id: 'lead_chosen',
      stage: 'won',
      leadScore: 99,
      scoreBand: 'hot',
      expectedValue: 1,
      organizationId: theirs.id,
    }
    const lead = recordOf(await request(api, '/api/v1/leads', { key: ours.key, json }))
    assert.notEqual(lead.id, 'lead_chosen')
    assert.deepEqual(
      [lead.stage, lead.leadScore, lead.scoreBand, lead.expectedValue],
      ['new', null, null, null],
    )
    assert.deepEqual(listOf(await request(api, '/api/v1/leads', { key: theirs.key })), [])
  })

  for (const hostile of [
    '"__proto__":{"city":"Smuggled","category":"Smuggled"}',
    '"__proto__":null',
    '"constructor":{"prototype":{"city":"Smuggled"}}',
    '"prototype":{"city":"Smuggled"}',
    '"hasOwnProperty":1,"toString":null,"valueOf":{},"toJSON":"x"',
  ]) {
    test(`POST /clients doesn't interpret {${hostile}}`, async () => {
      const business = await assertCreated(postClientText(`{"name":"Atlas",${hostile}}`), { name: 'Atlas' })
      assert.equal(business.city, null)
      assert.equal(business.category, null)
      assert.equal('city' in {}, false)
    })
  }

  test("POST /clients doesn't read the name from __proto__", async () => {
    await assertInvalid(postClientText('{"__proto__":{"name":"Atlas"}}'), 'name')
  })

  test('POST /clients uses the last value of a repeated field for both validation and the record', async () => {
    await assertCreated(postClientText('{"name":"A","name":"Atlas"}'), { name: 'Atlas' })
    await assertInvalid(postClientText('{"name":"Atlas","name":"A"}'), 'name')
    await assertInvalid(postClientText('{"name":"Atlas","name":null}'), 'name')
  })
})

describe('JSON nested 30,000 levels deep', () => {
  const arrays = '['.repeat(30_000) + ']'.repeat(30_000)
  const objects = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`

  test('POST /clients ignores it in an unknown field', async () => {
    for (const deep of [arrays, objects]) {
      await assertCreated(postClientText(`{"name":"Atlas","x":${deep}}`))
    }
  })

  test('POST /clients rejects it in a known field', async () => {
    for (const deep of [arrays, objects]) {
      const text = await assertInvalid(postClientText(`{"name":${deep}}`), 'name')
      assert.ok(text.length < 500)
    }
  })

  test('POST /leads rejects it in businessId', async () => {
    await assertInvalid(postLeadText(`{"businessId":${arrays}}`), 'businessId')
  })

  test('POST /clients rejects it as the whole body', async () => {
    assertError(await postClientText(arrays), 422)
    assertError(await postClientText(objects), 422)
  })

  test("POST /clients responds with 400 if it isn't closed", async () => {
    assertError(await postClientText('['.repeat(60_000)), 400)
    assertError(await postClientText('{"a":'.repeat(12_000)), 400)
  })
})
