import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import {
  type Answer,
  assertError,
  assertFields,
  type Fields,
  listOf,
  type Organization,
  recordOf,
  request,
  seedClients,
  startPlatform,
} from './_api.ts'

const platform = await startPlatform()
// Many requests for one organization: the limits are another file's subject.
const api = platform.apiWith({ rateLimit: false, onError: (error) => failures.push(error) })
const failures: unknown[] = []
const organization: Organization = await platform.organization()
after(() => platform.close())

const { key } = organization

function postClient(json: unknown): Promise<Answer> {
  return request(api, '/api/v1/clients', { key, json })
}

function postClientText(body: string): Promise<Answer> {
  return request(api, '/api/v1/clients', { key, body })
}

function postLeadText(body: string): Promise<Answer> {
  return request(api, '/api/v1/leads', { key, body })
}

async function assertCreated(answer: Promise<Answer>, expected: Fields = {}): Promise<Fields> {
  const { business } = recordOf(await answer)
  assertFields(business)
  for (const [name, value] of Object.entries(expected)) assert.equal(business[name], value)
  return business
}

/** 422 whose text names the field and what it must be. */
async function assertInvalid(answer: Promise<Answer>, field: string): Promise<string> {
  const text = assertError(await answer, 422, /^Validation failed: /)
  assert.match(text, new RegExp(`\\b${field}\\b.* must `))
  return text
}

const EMOJI = '🏺'
/** Two code points that are shown as one: code points are counted. */
const FLAG = '🇹🇳'

describe('POST /clients, lengths', () => {
  test('POST /clients refuses a name of 1 character', async () => {
    await assertInvalid(postClient({ name: 'A' }), 'name')
  })

  test('POST /clients accepts names of 2 and of 150 characters', async () => {
    for (const name of ['Ab', 'n'.repeat(150)]) await assertCreated(postClient({ name }), { name })
  })

  test('POST /clients refuses a name of 151 characters', async () => {
    await assertInvalid(postClient({ name: 'n'.repeat(151) }), 'name')
  })

  test('POST /clients refuses an empty name', async () => {
    await assertInvalid(postClient({ name: '' }), 'name')
  })

  test('POST /clients counts the code points of a name', async () => {
    await assertInvalid(postClient({ name: EMOJI }), 'name')
    for (const name of [EMOJI.repeat(2), FLAG, EMOJI.repeat(150), FLAG.repeat(75)]) {
      await assertCreated(postClient({ name }), { name })
    }
    await assertInvalid(postClient({ name: EMOJI.repeat(151) }), 'name')
    await assertInvalid(postClient({ name: `${FLAG.repeat(75)}x` }), 'name')
  })

  for (const [field, max] of [
    ['category', 80],
    ['city', 80],
    ['phone', 30],
  ] as const) {
    test(`POST /clients accepts a ${field} of ${max} characters and refuses ${max + 1}`, async () => {
      const longest = 'x'.repeat(max)
      await assertCreated(postClient({ name: 'Atlas', [field]: longest }), { [field]: longest })
      await assertInvalid(postClient({ name: 'Atlas', [field]: `${longest}x` }), field)
    })

    test(`POST /clients accepts a ${field} of ${max} emoji and refuses ${max + 1}`, async () => {
      const longest = EMOJI.repeat(max)
      await assertCreated(postClient({ name: 'Atlas', [field]: longest }), { [field]: longest })
      await assertInvalid(postClient({ name: 'Atlas', [field]: longest + EMOJI }), field)
    })

    test(`POST /clients accepts an empty ${field}`, async () => {
      await assertCreated(postClient({ name: 'Atlas', [field]: '' }), { [field]: '' })
    })
  }

  test('POST /clients does not trim: spaces count and are kept', async () => {
    await assertCreated(postClient({ name: '  ' }), { name: '  ' })
    await assertInvalid(postClient({ name: ' ' }), 'name')
    await assertInvalid(postClient({ name: `${' '.repeat(75)}x${' '.repeat(75)}` }), 'name')
  })
})

describe('POST /clients, email', () => {
  const longest = `${'l'.repeat(64)}@${'d'.repeat(185)}.com`
  const accepted = [
    'a@b.co',
    "o'h@x.com",
    'first.last+tag@sub.domain.example',
    'user@xn--caf-dma.example',
    'UPPER@EXAMPLE.COM',
    'jürgen@exämple.de',
    '1@2.3',
    `${'l'.repeat(64)}@example.com`,
    longest,
  ]
  for (const email of accepted) {
    test(`POST /clients accepts the email ${email.slice(0, 40)} as given`, async () => {
      await assertCreated(postClient({ name: 'Atlas', email }), { email })
    })
  }

  const refused: [what: string, email: string][] = [
    ['that is empty', ''],
    ['without an @', 'example.com'],
    ['without a dot in the domain', 'a@b'],
    ['with two @', 'a@b@example.com'],
    ['with nothing before the @', '@example.com'],
    ['with nothing after the @', 'a@'],
    ['whose domain ends with a dot', 'a@example.'],
    ['whose domain begins with a dot', 'a@.example'],
    ['with an empty label', 'a@example..com'],
    ['with a space inside', 'a b@example.com'],
    ['with a space in its domain', 'a@exam ple.com'],
    ['with a space before it', ' a@example.com'],
    ['with a space after it', 'a@example.com '],
    ['with CR and LF', 'a@example.com\r\nBcc: x@example.com'],
    ['with LF at its end', 'a@example.com\n'],
    ['with a tab', 'a\t@example.com'],
    ['with NUL', 'a\0@example.com'],
    ['with a no-break space', 'a\u00a0b@example.com'],
    ['with 65 characters before the @', `${'l'.repeat(65)}@example.com`],
    ['of 255 characters', `${'l'.repeat(64)}@${'d'.repeat(186)}.com`],
    ['of 60,000 characters', `a@${'d.'.repeat(30_000)}`],
  ]
  for (const [what, email] of refused) {
    test(`POST /clients refuses an email ${what}`, async () => {
      await assertInvalid(postClient({ name: 'Atlas', email }), 'email')
    })
  }

  test('The longest email has 254 characters', () => {
    assert.equal(longest.length, 254)
  })
})

describe('POST /clients, types', () => {
  const wrong: [what: string, value: unknown][] = [
    ['a number', 12],
    ['a boolean', true],
    ['null', null],
    ['an array', ['Atlas Ceramics']],
    ['an object', { length: 10 }],
  ]
  for (const field of ['name', 'category', 'city', 'email', 'phone']) {
    for (const [what, value] of wrong) {
      test(`POST /clients refuses ${what} as ${field}`, async () => {
        await assertInvalid(postClient({ name: 'Atlas', [field]: value }), field)
      })
    }
  }

  test('POST /clients refuses a body without a name, and says that it is required', async () => {
    const text = await assertInvalid(postClient({ city: 'Tunis' }), 'name')
    assert.match(text, /required/)
  })

  test('POST /clients names every field that is wrong and none that is right', async () => {
    const text = assertError(
      await postClient({ name: 'A', category: 'fine', city: 5, email: 'a@b', phone: null }),
      422,
    )
    for (const field of ['name', 'city', 'email', 'phone'])
      assert.match(text, new RegExp(`\\b${field} must `))
    assert.doesNotMatch(text, /category/)
  })

  test('A refusal does not repeat what was sent', async () => {
    const secret = 'sk_'.repeat(40)
    assert.doesNotMatch(assertError(await postClient({ name: 'Atlas', phone: secret }), 422), /sk_/)
  })

  for (const body of ['[]', '[{"name":"Atlas"}]', '"Atlas"', '12', '0', 'true', 'false', 'null', '""']) {
    test(`POST /clients and POST /leads refuse ${body} as the whole body`, async () => {
      for (const answer of [await postClientText(body), await postLeadText(body)]) {
        assertError(answer, 422, /^Validation failed: .*must be a JSON object/)
      }
    })
  }

  test('POST /clients and POST /leads refuse an empty object', async () => {
    await assertInvalid(postClient({}), 'name')
    await assertInvalid(postLeadText('{}'), 'businessId')
  })
})

describe('POST /leads, businessId', () => {
  for (const [what, value] of [
    ['a number', '12'],
    ['a boolean', 'false'],
    ['null', 'null'],
    ['an array', '["biz_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC"]'],
    ['an object', '{"id":"biz_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC"}'],
  ]) {
    test(`POST /leads refuses ${what} as businessId`, async () => {
      await assertInvalid(postLeadText(`{"businessId":${value}}`), 'businessId')
    })
  }

  test('POST /leads refuses a body without businessId, and says that it is required', async () => {
    const text = await assertInvalid(postLeadText('{"business_id":"x"}'), 'businessId')
    assert.match(text, /required/)
  })

  for (const [what, businessId] of [
    ['NUL', 'biz_\\u0000'],
    ['NUL alone', '\\u0000'],
    ['a lone high surrogate', 'biz_\\ud800'],
    ['a lone low surrogate', '\\udc00'],
    ['surrogates the wrong way round', '\\udc00\\ud800'],
  ] as const) {
    test(`POST /leads answers 404 for ${what} in businessId, with and without an idempotency key`, async () => {
      const body = `{"businessId":"${businessId}"}`
      failures.length = 0
      assertError(await postLeadText(body), 404, 'Business not found')
      const headers = { 'Idempotency-Key': `lead-${what.replaceAll(' ', '-')}` }
      const again = await request(api, '/api/v1/leads', { key, body, headers })
      assertError(again, 404, 'Business not found')
      assert.deepEqual(failures, [])
    })
  }

  test('POST /leads does not take a lone surrogate for the character that would replace it', async () => {
    const { id } = organization
    await platform.sql`
      insert into business_api.businesses (organization_id, id, name) values (${id}, ${'biz_\ufffd'}, 'Replaced')`
    assertError(await postLeadText('{"businessId":"biz_\\ud800"}'), 404, 'Business not found')
  })
})

describe('POST /clients, characters that cannot be stored', () => {
  for (const field of ['name', 'category', 'city', 'email', 'phone']) {
    for (const [what, text] of [
      ['NUL', 'a\\u0000b'],
      ['a lone high surrogate', 'ab\\ud800'],
      ['a lone low surrogate', '\\udc00ab'],
      ['surrogates the wrong way round', 'a\\udc00\\ud800b'],
    ]) {
      test(`POST /clients refuses ${what} in ${field}`, async () => {
        const value = field === 'email' ? `${text}@example.com` : text
        const named = field === 'name' ? '' : '"name":"Atlas",'
        await assertInvalid(postClientText(`{${named}"${field}":"${value}"}`), field)
      })
    }
  }

  test('POST /clients accepts a surrogate pair written as escapes', async () => {
    await assertCreated(postClientText('{"name":"a\\ud83c\\udffab"}'), { name: 'a🏺b' })
  })

  test('POST /clients accepts NUL and lone surrogates in what it ignores', async () => {
    await assertCreated(postClientText('{"name":"Atlas","x\\u0000\\ud800":"\\u0000\\udc00"}'))
  })
})

describe('Fields that the input does not have', () => {
  test('POST /clients ignores unknown fields and stores nothing of them', async () => {
    const { id, key } = await platform.organization()
    const json = {
      name: 'Atlas',
      website: 'marker-4711',
      tags: ['marker-4711'],
      business: { name: 'marker-4711' },
    }
    const answer = await request(api, '/api/v1/clients', { key, json })
    assert.doesNotMatch(answer.text, /marker-4711/)
    recordOf(answer)
    const rows = await platform.sql`
      select to_jsonb(b)::text as row from business_api.businesses b where organization_id = ${id}
      union all select to_jsonb(c)::text from business_api.clients c where organization_id = ${id}
      union all select to_jsonb(e)::text from business_api.events e where organization_id = ${id}`
    assert.equal(rows.length, 4)
    for (const { row } of rows) assert.doesNotMatch(row, /marker-4711/)
  })

  test('POST /clients lets a body change neither id, status, organization nor revenue', async () => {
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

  test('POST /leads lets a body change neither id, stage, score nor organization', async () => {
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
    test(`POST /clients gives no meaning to {${hostile}}`, async () => {
      const business = await assertCreated(postClientText(`{"name":"Atlas",${hostile}}`), { name: 'Atlas' })
      assert.equal(business.city, null)
      assert.equal(business.category, null)
      assert.equal('city' in {}, false)
    })
  }

  test('POST /clients does not find its name in __proto__', async () => {
    await assertInvalid(postClientText('{"__proto__":{"name":"Atlas"}}'), 'name')
  })

  test('POST /clients takes the last of a repeated field, for the check and for the record', async () => {
    await assertCreated(postClientText('{"name":"A","name":"Atlas"}'), { name: 'Atlas' })
    await assertInvalid(postClientText('{"name":"Atlas","name":"A"}'), 'name')
    await assertInvalid(postClientText('{"name":"Atlas","name":null}'), 'name')
  })
})

describe('JSON nested 30,000 deep', () => {
  const arrays = '['.repeat(30_000) + ']'.repeat(30_000)
  const objects = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`

  test('POST /clients ignores it in an unknown field', async () => {
    for (const deep of [arrays, objects]) {
      await assertCreated(postClientText(`{"name":"Atlas","x":${deep}}`))
    }
  })

  test('POST /clients refuses it in a known field', async () => {
    for (const deep of [arrays, objects]) {
      const text = await assertInvalid(postClientText(`{"name":${deep}}`), 'name')
      assert.ok(text.length < 500)
    }
  })

  test('POST /leads refuses it in businessId', async () => {
    await assertInvalid(postLeadText(`{"businessId":${arrays}}`), 'businessId')
  })

  test('POST /clients refuses it as the whole body', async () => {
    assertError(await postClientText(arrays), 422)
    assertError(await postClientText(objects), 422)
  })

  test('POST /clients answers 400 when it is not closed', async () => {
    assertError(await postClientText('['.repeat(60_000)), 400)
    assertError(await postClientText('{"a":'.repeat(12_000)), 400)
  })
})
