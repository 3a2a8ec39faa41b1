import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as v from 'valibot'
import * as field from '../../lib/base/fields.ts'
import { MomentSchema, oneOf } from '../../lib/base/host-input.ts'
import { validate } from '../../lib/http/validate.ts'
import { createSchemas } from '../../lib/openapi/schemas.ts'
import { inputOf } from '../../lib/resources/route.ts'
import { compile } from '../openapi/_document.ts'

// Tests the input of a create operation, which is built from the fields of the host's own calls.

const RecordSchema = v.object({
  id: field.id('proj', 'The record.'),
  title: field.prose(200, 'What it is for.', 'Train to Sfax'),
  kind: field.word('The kind.', 'fixed', 'hourly'),
  amount: field.amount('The amount.', 84.5),
  spentAt: field.timestamp('The time.'),
})
const INPUT = inputOf(RecordSchema, {
  title: field.text(1, 200),
  kind: oneOf(['fixed', 'hourly']),
  amount: field.decimal(0),
  spentAt: MomentSchema,
})
const GIVEN = { title: 'Bus', kind: 'hourly', amount: 1.125, spentAt: '2026-03-14T09:26:53.589Z' }

const NUMBER = 'must be a number from 0 to 999999999999.999 with at most three decimals'
const MOMENT = 'must be ISO 8601 with a time zone, from 1970 to 9999'

function refusal(given: object): string {
  try {
    validate(INPUT, given)
  } catch (error) {
    return String(Reflect.get(Object(error), 'message'))
  }
  throw new Error('The input is accepted')
}

describe('inputOf', () => {
  test('reads numbers as stored in columns, and times as timestamps', () => {
    assert.deepEqual(validate(INPUT, { ...GIVEN, more: 1 }), GIVEN)
    const spentAt = '2026-03-14t10:26:53.589+01:00'
    assert.deepEqual(validate(INPUT, { ...GIVEN, amount: -0, spentAt }), { ...GIVEN, amount: 0 })
    for (const amount of [0.001, 0.1, 84.1, 999_999_999_999.999])
      assert.deepEqual(validate(INPUT, { ...GIVEN, amount }), { ...GIVEN, amount })
  })

  for (const amount of [
    -0.001,
    1e12,
    0.0001,
    1.0005,
    '1',
    null,
    true,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ]) {
    test(`rejects ${JSON.stringify(amount)} as a number`, () => {
      assert.equal(refusal({ ...GIVEN, amount }), `Validation failed: amount ${NUMBER}`)
    })
  }

  const moments = ['2026-03-14', '2026-03-14T09:26:53', '2026-02-30T00:00:00Z', '1969-12-31T23:59:59.999Z']
  for (const spentAt of [...moments, '9999-12-31T23:59:59-01:00', '', 17, null, new Date(0)]) {
    test(`rejects ${JSON.stringify(spentAt)} as a time`, () => {
      assert.equal(refusal({ ...GIVEN, spentAt }), `Validation failed: spentAt ${MOMENT}`)
    })
  }

  test('says what a missing field must be', () => {
    assert.equal(
      refusal({}),
      `Validation failed: title is required and must be a string of 1 to 200 characters; kind is required and must be one of fixed, hourly; amount is required and ${NUMBER}; spentAt is required and ${MOMENT}`,
    )
  })

  test('has the descriptions and examples of the record in the document, which accepts the same as the API', () => {
    const { components } = createSchemas({ Input: { schema: INPUT } })
    const { required, properties, examples } = Object(components.Input)
    assert.deepEqual(required, ['title', 'kind', 'amount', 'spentAt'])
    assert.deepEqual(examples, [
      { title: 'Train to Sfax', kind: 'fixed', amount: 84.5, spentAt: field.EXAMPLE_TIME },
    ])
    assert.deepEqual(properties.amount, {
      type: 'number',
      format: 'double',
      minimum: 0,
      maximum: 999_999_999_999.999,
      description: 'The amount.',
      examples: [84.5],
    })
    assert.deepEqual(properties.spentAt, {
      type: 'string',
      format: 'date-time',
      maxLength: 35,
      description: 'The time.',
      examples: [field.EXAMPLE_TIME],
    })
    assert.deepEqual([properties.kind.type, properties.kind.enum], ['string', ['fixed', 'hourly']])
    const accepts = compile(Object(components.Input))
    assert.equal(accepts(GIVEN), true)
    assert.equal(accepts({ ...GIVEN, amount: -1 }), false)
    assert.equal(accepts({ ...GIVEN, spentAt: 'today' }), false)
  })

  test("throws for a field that the record doesn't have", () => {
    assert.throws(
      () => inputOf(RecordSchema, { other: field.text(1, 2) }),
      /Cannot describe 'other', which is no field of the record/,
    )
  })
})
