import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertError, BUSINESS_NOT_FOUND, request } from './_api.ts'
import {
  api,
  assertCreated,
  assertInvalid,
  EMOJI,
  FLAG,
  failures,
  key,
  organization,
  platform,
  postClient,
  postClientText,
  postLeadText,
} from './_validation.ts'

describe('POST /clients, lengths', () => {
  test('POST /clients rejects a name of 1 character', async () => {
    await assertInvalid(postClient({ name: 'A' }), 'name')
  })

  test('POST /clients accepts names of 2 and of 150 characters', async () => {
    for (const name of ['Ab', 'n'.repeat(150)]) await assertCreated(postClient({ name }), { name })
  })

  test('POST /clients rejects a name of 151 characters', async () => {
    await assertInvalid(postClient({ name: 'n'.repeat(151) }), 'name')
  })

  test('POST /clients rejects an empty name', async () => {
    await assertInvalid(postClient({ name: '' }), 'name')
  })

  test("POST /clients counts a name's code points", async () => {
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
    test(`POST /clients accepts a ${field} of ${max} characters and rejects ${max + 1}`, async () => {
      const longest = 'x'.repeat(max)
      await assertCreated(postClient({ name: 'Atlas', [field]: longest }), { [field]: longest })
      await assertInvalid(postClient({ name: 'Atlas', [field]: `${longest}x` }), field)
    })

    test(`POST /clients accepts a ${field} of ${max} emoji and rejects ${max + 1}`, async () => {
      const longest = EMOJI.repeat(max)
      await assertCreated(postClient({ name: 'Atlas', [field]: longest }), { [field]: longest })
      await assertInvalid(postClient({ name: 'Atlas', [field]: longest + EMOJI }), field)
    })

    test(`POST /clients accepts an empty ${field}`, async () => {
      await assertCreated(postClient({ name: 'Atlas', [field]: '' }), { [field]: '' })
    })
  }

  test("POST /clients doesn't trim, so spaces count and are kept", async () => {
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
    ['with a soft hyphen', 'a\u00adb@example.com'],
    ['with a zero-width space in its domain', 'a@exam\u200bple.com'],
    ['with a mark of direction', 'a\u200e@example.com'],
    ['with a tag character', 'a\u{e0041}@example.com'],
    ['with 65 characters before the @', `${'l'.repeat(65)}@example.com`],
    ['of 255 characters', `${'l'.repeat(64)}@${'d'.repeat(186)}.com`],
    ['of 60,000 characters', `a@${'d.'.repeat(30_000)}`],
  ]
  for (const [what, email] of refused) {
    test(`POST /clients rejects an email ${what}`, async () => {
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
      test(`POST /clients rejects ${what} as ${field}`, async () => {
        await assertInvalid(postClient({ name: 'Atlas', [field]: value }), field)
      })
    }
  }

  test('POST /clients rejects a body without a name: "is required"', async () => {
    const text = await assertInvalid(postClient({ city: 'Tunis' }), 'name')
    assert.match(text, /required/)
  })

  test('POST /clients lists all invalid fields and no valid ones', async () => {
    const text = assertError(
      await postClient({ name: 'A', category: 'fine', city: 5, email: 'a@b', phone: null }),
      422,
    )
    for (const field of ['name', 'city', 'email', 'phone'])
      assert.match(text, new RegExp(`\\b${field} must `))
    assert.doesNotMatch(text, /category/)
  })

  test('POST /clients says that an optional field should be omitted, not null', async () => {
    const text = assertError(await postClient({ name: 'Atlas', phone: null }), 422)
    assert.match(text, /phone must be a string of at most 30 characters, not null: leave phone out instead$/)
    const required = assertError(await postClient({ name: null }), 422)
    assert.doesNotMatch(required, /leave/)
  })

  test('A rejection never contains the values that were sent', async () => {
    const secret = 'sk_'.repeat(40)
    assert.doesNotMatch(assertError(await postClient({ name: 'Atlas', phone: secret }), 422), /sk_/)
  })

  for (const body of ['[]', '[{"name":"Atlas"}]', '"Atlas"', '12', '0', 'true', 'false', 'null', '""']) {
    test(`POST /clients and POST /leads reject ${body} as the whole body`, async () => {
      for (const answer of [await postClientText(body), await postLeadText(body)]) {
        assertError(answer, 422, /^Validation failed: .*must be a JSON object/)
      }
    })
  }

  test('POST /clients and POST /leads reject an empty object', async () => {
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
    test(`POST /leads rejects ${what} as businessId`, async () => {
      await assertInvalid(postLeadText(`{"businessId":${value}}`), 'businessId')
    })
  }

  test('POST /leads rejects a body without businessId: "is required"', async () => {
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
    test(`POST /leads responds with 404 for ${what} in businessId, with and without an idempotency key`, async () => {
      const body = `{"businessId":"${businessId}"}`
      failures.length = 0
      assertError(await postLeadText(body), 404, BUSINESS_NOT_FOUND)
      const headers = { 'Idempotency-Key': `lead-${what.replaceAll(' ', '-')}` }
      const again = await request(api, '/api/v1/leads', { key, body, headers })
      assertError(again, 404, BUSINESS_NOT_FOUND)
      assert.deepEqual(failures, [])
    })
  }

  test("POST /leads doesn't treat a lone surrogate as U+FFFD", async () => {
    const { id } = organization
    await platform.sql`
      insert into business_api.businesses (organization_id, id, name) values (${id}, ${'biz_\ufffd'}, 'Replaced')`
    assertError(await postLeadText('{"businessId":"biz_\\ud800"}'), 404, BUSINESS_NOT_FOUND)
  })
})
