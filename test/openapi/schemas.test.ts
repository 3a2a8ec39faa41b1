import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as v from 'valibot'
import { EVENT_TYPES } from '../../lib/index.ts'
import { createSchemas } from '../../lib/openapi/schemas.ts'
import { CreateClientInputSchema } from '../../lib/resources/clients.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'
import { capital } from '../../lib/resources/route.ts'
import {
  build,
  compile,
  envelopeOf,
  openapi,
  type Parameter,
  parameter,
  resolve,
  schema,
  schemasOf,
} from './_document.ts'

describe('openapi schemas (specification, sections 2 and 8)', () => {
  const fields: Readonly<Record<string, readonly string[]>> = {
    ...Object.fromEntries(
      Object.values(PLAIN_RESOURCES).map(({ kind, columns }) => [capital(kind), Object.keys(columns)]),
    ),
    Client: ['id', 'status', 'totalRevenue', 'monthlyRevenue', 'convertedAt', 'business'],
    Business: ['id', 'name', 'category', 'city', 'email', 'phone'],
    Lead: ['id', 'stage', 'leadScore', 'scoreBand', 'expectedValue', 'createdAt'],
    Invoice: [
      ...['id', 'number', 'status', 'currency', 'issueDate', 'dueDate'],
      ...['total', 'amountPaid', 'amountDue'],
    ],
    Proposal: ['id', 'number', 'title', 'status', 'version', 'total', 'monthlyTotal', 'currency'],
    Project: ['id', 'name', 'status', 'billingType', 'value'],
  }
  for (const [name, names] of Object.entries(fields)) {
    test(`${name} has all fields, all of them required, and an example`, () => {
      assert.deepEqual(Object.keys(schema(name).properties ?? {}), names)
      assert.deepEqual(schema(name).required, names)
      assert.deepEqual(Object.keys(schema(name).examples?.[0] ?? {}), names)
    })
  }

  test('the nullable fields of records are those of the specification, written as lists of types', () => {
    const nullable = schemasOf(openapi)
      .filter(
        ([path, { type }]) =>
          /^#\/components\/schemas\/\w+(?<!Event|EventData)\//.test(path) && Array.isArray(type),
      )
      .map(([path, { type }]) => [path.replace('#/components/schemas/', ''), type])
    assert.deepEqual(Object.fromEntries(nullable), {
      'Business/properties/category': ['string', 'null'],
      'Business/properties/city': ['string', 'null'],
      'Business/properties/email': ['string', 'null'],
      'Business/properties/phone': ['string', 'null'],
      'Lead/properties/leadScore': ['number', 'null'],
      'Lead/properties/scoreBand': ['string', 'null'],
      'Lead/properties/expectedValue': ['number', 'null'],
    })
  })

  test("an invoice's amounts are decimal strings", () => {
    for (const name of ['total', 'amountPaid', 'amountDue']) {
      const accepts = compile(schema('Invoice').properties?.[name] ?? {})
      assert.deepEqual(
        ['1250.000', '900', 1250, '1,250', '-1'].map((value) => accepts(value)),
        [true, true, false, false, false],
      )
    }
  })

  test('timestamps are date-time', () => {
    const stamped = schemasOf(openapi).filter(([path]) => /\/(\w+At|\w+Date)$/.test(path))
    assert.ok(stamped.length > 24)
    for (const [path, { format }] of stamped) assert.equal(format, 'date-time', path)
  })

  test('CreateClientInput limits each field and only requires name', () => {
    const { properties: { name, category, city, email, phone } = {}, required } = schema('CreateClientInput')
    assert.deepEqual(required, ['name'])
    assert.deepEqual([name?.minLength, name?.maxLength], [2, 150])
    assert.deepEqual([category?.maxLength, city?.maxLength, phone?.maxLength], [80, 80, 30])
    assert.deepEqual([email?.format, email?.maxLength], ['email', 254])
  })

  test('CreateLeadInput requires businessId', () => {
    const { properties, required } = schema('CreateLeadInput')
    assert.deepEqual([Object.keys(properties ?? {}), required], [['businessId'], ['businessId']])
  })

  const inputs: readonly unknown[] = [
    { name: 'ab' },
    { name: 'x'.repeat(150), category: '', city: 'y'.repeat(80), phone: '1'.repeat(30) },
    { name: '😀'.repeat(150) },
    { name: 'Atlas', unknown: 1 },
    { name: 'Atlas', email: "o'h@x.com" },
    {},
    [],
    { name: 'a' },
    { name: '😀' },
    { name: 'x'.repeat(151) },
    { name: '😀'.repeat(151) },
    { name: 12 },
    { name: 'At\0las' },
    { name: 'Atlas', category: null },
    { name: 'Atlas', city: 'y'.repeat(81) },
    { name: 'Atlas', phone: '1'.repeat(31) },
    { name: 'Atlas', email: '' },
    { name: 'Atlas', email: 'a b@x.com' },
    { name: 'Atlas', email: 'x.com' },
    { name: 'Atlas', email: 'a@b' },
    { name: 'Atlas', email: 'a..b@x.com' },
    { name: 'Atlas', email: 'jörg@bücher.example' },
    { name: 'Atlas', email: 'a@-x.com' },
    { name: 'Atlas', email: `${'a'.repeat(65)}@x.com` },
    { name: 'Atlas', email: 'a\x7fb@x.com' },
    { name: 'Atlas', email: 'École@x.com' },
  ]
  test('CreateClientInput accepts exactly what the API accepts', () => {
    const accepts = compile(schema('CreateClientInput'))
    for (const input of inputs) {
      const { success } = v.safeParse(CreateClientInputSchema, input)
      // valibot accepts an array as an object, but the API has already rejected it.
      assert.equal(accepts(input), success && !Array.isArray(input), JSON.stringify(input))
    }
  })

  test('patterns are ASCII and only use what regular expressions in all languages have in common', () => {
    const patterns = new Set(schemasOf(openapi).flatMap(([, { pattern }]) => pattern ?? []))
    assert.ok(patterns.size >= 8)
    for (const pattern of patterns) {
      assert.match(pattern, /^\^[ -~]*\$$/)
      assert.doesNotMatch(pattern, /\\(?!x[0-7][0-9a-f]|[.])|\(\?(?!:)|\[:|&&/, pattern)
    }
  })

  test("a rule that JSON Schema can't express isn't ignored", () => {
    const odd = v.pipe(
      v.number(),
      v.check((value) => value % 2 === 1),
    )
    assert.throws(
      () => createSchemas({ Odd: { schema: v.object({ odd }) } }),
      /"check" action cannot be converted/,
    )
  })
})

/** Returns `InvoicePaidEventData` for `invoice.paid`. */
function dataNameOf(type: string): string {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  return `${words.join('')}EventData`
}

describe('openapi webhooks (specification, section 6)', () => {
  test('there is one webhook per event type', () => {
    assert.deepEqual(Object.keys(openapi.webhooks), EVENT_TYPES)
  })

  for (const [type, { post }] of Object.entries(openapi.webhooks)) {
    test(`${type} is a POST of the envelope with its three headers and the optional Standard Webhooks headers, and needs no key`, () => {
      assert.deepEqual([post.tags, post.security], [['Webhooks'], []])
      const headers = post.parameters.map((one) => resolve<Parameter>(one))
      assert.deepEqual(
        headers.map(({ name, in: place, required }) => [name, place, required]),
        [
          ['X-SERVICE-Event-Id', 'header', true],
          ['X-SERVICE-Event-Type', 'header', true],
          ['X-SERVICE-Signature', 'header', true],
          ['webhook-id', 'header', false],
          ['webhook-timestamp', 'header', false],
          ['webhook-signature', 'header', false],
        ],
      )
      assert.equal(headers[1]?.schema.const, type)
      const envelope = envelopeOf(type)
      assert.deepEqual(envelope.required, ['id', 'type', 'createdAt', 'data'])
      assert.equal(envelope.properties?.type?.const, type)
      const { id, type: _, createdAt, ...others } = envelope.properties ?? {}
      assert.ok(id && createdAt, 'id and createdAt')
      assert.deepEqual(others, { data: { $ref: `#/components/schemas/${dataNameOf(type)}` } })
      assert.equal(schema(dataNameOf(type)).type, 'object')
      assert.deepEqual(Object.keys(post.responses), ['410', '2XX', 'default'])
    })
  }

  test('data of invoice.paid is invoiceId and number', () => {
    const { properties, required, examples } = schema('InvoicePaidEventData')
    assert.deepEqual(required, ['invoiceId', 'number'])
    assert.deepEqual(Object.keys(properties ?? {}), ['invoiceId', 'number'])
    const [event] = schema('InvoicePaidEvent').examples ?? []
    assert.deepEqual(examples, [(event as { data: unknown }).data])
  })

  test("data refers to the resource's schema", () => {
    const { properties } = schema('ClientCreatedEventData')
    assert.deepEqual(properties?.client, { $ref: '#/components/schemas/Client' })
  })

  test('a signature has a time and one or more digests in lowercase hex', () => {
    const post = openapi.webhooks['invoice.paid']?.post
    assert.ok(post)
    const accepts = compile(parameter(post, 'X-SERVICE-Signature').schema)
    const digest = '0f'.repeat(32)
    const bad = [`t=1,v1=${digest.toUpperCase()}`, `t=1, v1=${digest}`, 't=1,v1=', `v1=${digest}`]
    assert.deepEqual(
      [`t=1,v1=${digest}`, `t=1773480413,v1=${digest},v1=${digest}`, ...bad].map((value) => accepts(value)),
      [true, true, false, false, false, false],
    )
  })

  test("the headers have the platform's prefix", () => {
    const text = JSON.stringify(build({}, { headerPrefix: 'X-Acme' }))
    assert.match(text, /"X-Acme-Signature"/)
    assert.doesNotMatch(text, /X-SERVICE/)
  })
})
