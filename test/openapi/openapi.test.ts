import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import * as v from 'valibot'
import { readOptions } from '../../lib/api/options.ts'
import { createRoutes } from '../../lib/api/routes.ts'
import { type BusinessApiOptions, type BusinessApiStore, EVENT_TYPES } from '../../lib/index.ts'
import { buildOpenApiDocument } from '../../lib/openapi/document.ts'
import { createSchemas } from '../../lib/openapi/schemas.ts'
import { CreateClientInputSchema } from '../../lib/resources/clients.ts'

// The document is built from declarations, so no store is ever called and no database is needed.

// --- What the tests see of a document ---

interface Ref {
  readonly $ref: string
}

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly examples?: readonly unknown[]
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}

interface Content {
  readonly 'application/json': { readonly schema: Schema; readonly example?: unknown }
}

interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, Ref>>
  readonly content?: Content
}

interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly 'x-required-scope'?: string
  readonly security: readonly object[]
  readonly parameters: readonly (Ref | Parameter)[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Response | Ref>>
}

interface Document {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
    readonly headers: Readonly<Record<string, Parameter>>
  }
}

function build(options: BusinessApiOptions = {}): Document {
  const routes = createRoutes({} as BusinessApiStore)
  return buildOpenApiDocument({ routes, ...readOptions(options) }) as Document
}

const openapi = build()

// --- Ways through a document ---

type Node = Readonly<Record<string, unknown>>

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}

/** Every object of the document with its path; what stands inside an example is a value and no part of the document. */
function* nodesOf(node: Node, path = '#'): Generator<readonly [string, Node]> {
  yield [path, node]
  for (const [key, value] of Object.entries(node)) {
    if (isNode(value) && key !== 'example' && key !== 'examples') yield* nodesOf(value, `${path}/${key}`)
  }
}

/** Every schema, wherever it stands. */
function schemasOf(document: Document): (readonly [string, Schema])[] {
  const types = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])
  return [...nodesOf(document as unknown as Node)].filter(([, { type }]) =>
    [type].flat().some((name) => typeof name === 'string' && types.has(name)),
  ) as (readonly [string, Schema])[]
}

function resolve<Target extends object>(target: Target | Ref, document: Document = openapi): Target {
  if (!('$ref' in target)) return target
  let found: unknown = document
  for (const part of target.$ref.slice(2).split('/')) found = isNode(found) ? found[part] : undefined
  assert.ok(isNode(found), `nothing at ${target.$ref}`)
  return found as Target
}

function operation(method: string, path: string, document: Document = openapi): Operation {
  const found = document.paths[path]?.[method]
  assert.ok(found, `no ${method} ${path}`)
  return found
}

function response(from: Operation, status: string, document: Document = openapi): Response {
  const found = from.responses[status]
  assert.ok(found, `${from.operationId} says nothing of ${status}`)
  return resolve(found, document)
}

function parameter(from: Operation, name: string): Parameter {
  const found = from.parameters.map((one) => resolve<Parameter>(one)).find((one) => one.name === name)
  assert.ok(found, `${from.operationId} has no parameter ${name}`)
  return found
}

function operationsOf(document: Document): Operation[] {
  const inPaths = Object.values(document.paths).flatMap((methods) => Object.values(methods))
  return [...inPaths, ...Object.values(document.webhooks).map(({ post }) => post)]
}

function dataOf(from: Operation): Schema {
  const data = response(from, '200').content?.['application/json'].schema.properties?.data
  assert.ok(data, `${from.operationId} answers no data`)
  return data
}

function schema(name: string): Schema {
  return resolve<Schema>({ $ref: `#/components/schemas/${name}` })
}

// --- Judging values by schemas ---

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true })
addFormats.default(ajv)
ajv.addVocabulary(['components'])

/** Compiles a schema of the document, strictly: a keyword that is misspelt or does not fit its type throws. */
function compile(judged: Schema): ValidateFunction {
  const refers = JSON.stringify(judged).includes('"$ref"')
  return ajv.compile(refers ? { ...judged, components: { schemas: openapi.components.schemas } } : judged)
}

function assertFits(value: unknown, judged: Schema, where: string): void {
  const fits = compile(judged)
  assert.ok(fits(value), `${where}: ${ajv.errorsText(fits.errors)}`)
}

// --- The specification ---

const OPERATIONS = [
  ['get', '/api/v1/clients', 'clients:read', 'Client'],
  ['post', '/api/v1/clients', 'clients:write', 'Client'],
  ['get', '/api/v1/leads', 'leads:read', 'Lead'],
  ['post', '/api/v1/leads', 'leads:write', 'Lead'],
  ['get', '/api/v1/invoices', 'invoices:read', 'Invoice'],
  ['get', '/api/v1/proposals', 'proposals:read', 'Proposal'],
  ['get', '/api/v1/projects', 'projects:read', 'Project'],
] as const

const reads = OPERATIONS.filter(([method]) => method === 'get')
const writes = OPERATIONS.filter(([method]) => method === 'post')

describe('openapi operations (specification, section 4)', () => {
  test('the document has the seven operations and no other', () => {
    const found = Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    )
    assert.deepEqual(found.toSorted(), OPERATIONS.map(([method, path]) => `${method} ${path}`).toSorted())
  })

  for (const [method, path, scope, item] of OPERATIONS) {
    test(`${method} ${path} needs the scope ${scope} of a bearer key`, () => {
      const found = operation(method, path)
      assert.equal(found['x-required-scope'], scope)
      assert.match(found.description, new RegExp(scope))
      assert.deepEqual(found.security, [{ bearer: [] }])
    })

    test(`${method} ${path} answers 200 with ${item} in data`, () => {
      const data = dataOf(operation(method, path))
      const ref = { $ref: `#/components/schemas/${item}` }
      assert.deepEqual(data, method === 'get' ? { type: 'array', maxItems: 200, items: ref } : ref)
      assert.deepEqual(Object.keys(response(operation(method, path), '200').headers ?? {}), [
        'X-Request-Id',
        'RateLimit',
        'RateLimit-Policy',
        ...(method === 'post' ? ['Idempotent-Replayed'] : []),
      ])
    })
  }

  for (const [method, path] of reads) {
    test(`${method} ${path} takes limit, a whole number from 1 to 200, default 50, and no body`, () => {
      const found = operation(method, path)
      const { in: place, required, schema: limit } = parameter(found, 'limit')
      assert.deepEqual([place, required, found.requestBody], ['query', undefined, undefined])
      assert.deepEqual(limit, { type: 'integer', format: 'int32', minimum: 1, maximum: 200, default: 50 })
    })
  }

  for (const [method, path] of writes) {
    test(`${method} ${path} takes a JSON body and an optional Idempotency-Key of at most 200 characters`, () => {
      const found = operation(method, path)
      const { in: place, required, schema: key } = parameter(found, 'Idempotency-Key')
      assert.deepEqual([place, required, key.minLength, key.maxLength], ['header', undefined, 1, 200])
      assert.equal(found.requestBody?.required, true)
      assert.deepEqual(Object.keys(found.requestBody.content), ['application/json'])
    })
  }

  test('Idempotency-Key is visible ASCII', () => {
    const accepts = compile(parameter(operation('post', '/api/v1/leads'), 'Idempotency-Key').schema)
    assert.deepEqual(
      ['!~', 'a'.repeat(200), '', 'a'.repeat(201), 'a b', 'a, b', 'é', 'a\n', '\x7f'].map((key) =>
        accepts(key),
      ),
      [true, true, false, false, false, false, false, false, false],
    )
  })
})

describe('openapi authentication (specification, section 5)', () => {
  test('bearer is HTTP bearer and tells the form of a key', () => {
    const { bearer } = build({ keyPrefix: 'acme' }).components.securitySchemes
    assert.ok(isNode(bearer))
    assert.deepEqual([bearer.type, bearer.scheme], ['http', 'bearer'])
    assert.match(String(bearer.description), /`acme_live_`/)
  })
})

describe('openapi statuses (specification, section 7)', () => {
  const listed = ['401', '403', '404', '422', '429']
  const onBodies = ['400', '409', '413', '415']

  for (const [method, path] of OPERATIONS) {
    test(`${method} ${path} lists every status that it answers`, () => {
      const statuses = ['200', ...listed, '500', '503', ...(method === 'post' ? onBodies : [])]
      assert.deepEqual(Object.keys(operation(method, path).responses), statuses.toSorted())
    })
  }

  const created = operation('post', '/api/v1/clients')
  for (const status of [...listed, ...onBodies, '500', '503']) {
    test(`${status} has the form of an error, a description and its headers`, () => {
      const { description, content, headers = {} } = response(created, status)
      assert.ok(description.length > 10)
      assert.deepEqual(content?.['application/json'].schema, { $ref: '#/components/schemas/Error' })
      const authenticated = !['401', '500', '503'].includes(status)
      assert.deepEqual(Object.keys(headers).toSorted(), [
        ...(authenticated ? ['RateLimit', 'RateLimit-Policy'] : []),
        ...(['409', '429', '503'].includes(status) ? ['Retry-After'] : []),
        ...(['401', '403'].includes(status) ? ['WWW-Authenticate'] : []),
        'X-Request-Id',
      ])
    })
  }

  test('an error has error and requestId, both of them required', () => {
    assert.deepEqual(Object.keys(schema('Error').properties ?? {}), ['error', 'requestId'])
    assert.deepEqual(schema('Error').required, ['error', 'requestId'])
  })

  test('413 tells the size that is allowed', () => {
    const document = build({ maxBodyBytes: 1234 })
    const { description, content } = response(operation('post', '/api/v1/leads', document), '413', document)
    assert.match(description, /1234 bytes/)
    assert.match(JSON.stringify(content), /larger than 1234 bytes/)
  })
})

describe('openapi schemas (specification, sections 2 and 8)', () => {
  const fields = {
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
    test(`${name} has its fields, all of them required, and an example`, () => {
      assert.deepEqual(Object.keys(schema(name).properties ?? {}), names)
      assert.deepEqual(schema(name).required, names)
      assert.deepEqual(Object.keys(schema(name).examples?.[0] ?? {}), names)
    })
  }

  test('the nullable fields are those of the specification, as lists of types', () => {
    const nullable = schemasOf(openapi)
      .filter(([path, { type }]) => path.startsWith('#/components/') && Array.isArray(type))
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

  test('money of an invoice is a decimal string', () => {
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

  test('CreateClientInput bounds each field and requires name only', () => {
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
  ]
  test('CreateClientInput accepts exactly what the API accepts', () => {
    const accepts = compile(schema('CreateClientInput'))
    for (const input of inputs) {
      const { success } = v.safeParse(CreateClientInputSchema, input)
      // valibot takes an array for an object; the API refuses it before.
      assert.equal(accepts(input), success && !Array.isArray(input), JSON.stringify(input))
    }
  })

  test('a rule that JSON Schema cannot say is not dropped', () => {
    const odd = v.pipe(
      v.number(),
      v.check((value) => value % 2 === 1),
    )
    assert.throws(() => createSchemas({ Odd: v.object({ odd }) }), /"check" action cannot be converted/)
  })
})

describe('openapi rate limits (specification, section 8)', () => {
  test('the headers show the limits of the API', () => {
    const limits = { key: { perSecond: 5, burst: 10 }, organization: { perSecond: 50, burst: 100 } }
    const { headers } = build({ rateLimit: limits }).components
    assert.deepEqual(
      [headers['RateLimit-Policy'], headers.RateLimit].map((header) => isNode(header) && header.example),
      ['"key";q=10;w=2, "org";q=100;w=2', '"key";r=9;t=1, "org";r=99;t=1'],
    )
    assert.match(
      build({ rateLimit: limits }).info.description,
      /5 requests per second with bursts of 10.*50 requests per second with bursts of 100/,
    )
  })

  test('without limits nothing speaks of their headers, and 429 stays listed', () => {
    const document = build({ rateLimit: false })
    assert.doesNotMatch(JSON.stringify(document), /RateLimit(-Policy)?["`]/)
    assert.ok('429' in operation('get', '/api/v1/leads', document).responses)
  })
})

describe('openapi webhooks (specification, section 6)', () => {
  test('there is one webhook for each of the 24 types', () => {
    assert.equal(Object.keys(openapi.webhooks).length, 24)
    assert.deepEqual(Object.keys(openapi.webhooks), EVENT_TYPES)
  })

  for (const [type, { post }] of Object.entries(openapi.webhooks)) {
    test(`${type} is a POST of the envelope with its three headers, and needs no key`, () => {
      assert.deepEqual([post.tags, post.security], [['Webhooks'], []])
      const headers = post.parameters.map((one) => resolve<Parameter>(one))
      assert.deepEqual(
        headers.map(({ name, in: place, required }) => [name, place, required]),
        ['X-SERVICE-Event-Id', 'X-SERVICE-Event-Type', 'X-SERVICE-Signature'].map((name) => [
          name,
          'header',
          true,
        ]),
      )
      assert.equal(headers[1]?.schema.const, type)
      const envelope = post.requestBody?.content['application/json'].schema
      assert.deepEqual(envelope?.required, ['id', 'type', 'createdAt', 'data'])
      assert.equal(envelope?.properties?.type?.const, type)
      assert.deepEqual(Object.keys(post.responses), ['410', '2XX', 'default'])
    })
  }

  test('data of invoice.paid is invoiceId and number', () => {
    const envelope = openapi.webhooks['invoice.paid']?.post.requestBody?.content['application/json'].schema
    assert.deepEqual(envelope?.properties?.data?.required, ['invoiceId', 'number'])
    assert.deepEqual(Object.keys(envelope?.properties?.data?.properties ?? {}), ['invoiceId', 'number'])
  })

  test('data refers to the resource that it carries', () => {
    const envelope = openapi.webhooks['client.created']?.post.requestBody?.content['application/json'].schema
    assert.deepEqual(envelope?.properties?.data?.properties?.client, { $ref: '#/components/schemas/Client' })
  })

  test('a signature has a time and one or more digests in lower-case hex', () => {
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

  test('the headers carry the prefix of the platform', () => {
    const text = JSON.stringify(build({ headerPrefix: 'X-Acme' }))
    assert.match(text, /"X-Acme-Signature"/)
    assert.doesNotMatch(text, /X-SERVICE/)
  })
})

describe('openapi document', () => {
  test('the document is OpenAPI 3.1 of the Business API 1.0.0', () => {
    assert.deepEqual(
      [openapi.openapi, openapi.info.title, openapi.info.version],
      ['3.1.0', 'Business API', '1.0.0'],
    )
    for (const topic of ['Authentication', 'Errors', 'Idempotency', 'Rate limits', 'Webhooks']) {
      assert.match(openapi.info.description, new RegExp(`^## ${topic}$`, 'm'))
    }
  })

  test('the server is baseUrl, else basePath, else the root', () => {
    const servers = [
      { baseUrl: 'https://app.example.com/platform', basePath: '/x' },
      { basePath: '/platform' },
      {},
    ]
    assert.deepEqual(
      servers.map((options) => build(options).servers),
      [[{ url: 'https://app.example.com/platform' }], [{ url: '/platform' }], [{ url: '/' }]],
    )
  })

  test('every schema compiles in strict mode', () => {
    const schemas = schemasOf(openapi)
    assert.ok(schemas.length > 200)
    for (const [path, found] of schemas) assert.doesNotThrow(() => compile(found), path)
  })

  test('every example fits its schema', () => {
    let judged = 0
    for (const [path, node] of nodesOf(openapi as unknown as Node)) {
      const { schema: own, example, examples } = node
      const values = isNode(examples) ? Object.values(examples) : []
      const shown = isNode(own)
        ? [...('example' in node ? [example] : []), ...values.map((value) => isNode(value) && value.value)]
        : Array.isArray(examples)
          ? examples
          : []
      for (const value of shown) assertFits(value, (isNode(own) ? own : node) as Schema, path)
      judged += shown.length
    }
    assert.ok(judged > 250, `only ${judged} examples`)
  })

  test('every body and every parameter has an example', () => {
    for (const [path, node] of nodesOf(openapi as unknown as Node)) {
      if (isNode(node.schema)) assert.ok('example' in node || 'examples' in node, path)
    }
  })

  test('every string is bounded', () => {
    for (const [path, { type, maxLength, const: only }] of schemasOf(openapi)) {
      if ([type].flat().includes('string')) assert.ok(maxLength ?? only, path)
    }
  })

  test('every number is bounded, every integer is an int32, every list has a longest length', () => {
    for (const [path, { type, minimum, maximum, format, maxItems }] of schemasOf(openapi)) {
      const types = [type].flat()
      if (types.includes('integer')) assert.equal(format, 'int32', path)
      if (types.includes('integer') || types.includes('number')) assert.ok(maximum !== undefined, path)
      if (types.includes('integer') || types.includes('number')) assert.ok(minimum !== undefined, path)
      if (types.includes('array')) assert.ok(maxItems, path)
    }
  })

  test('every object takes fields that are not known yet', () => {
    assert.doesNotMatch(JSON.stringify(openapi), /additionalProperties|unevaluatedProperties/)
  })

  test('every $ref leads somewhere, and every component is referred to', () => {
    const refs = new Set<string>()
    for (const [, { $ref }] of nodesOf(openapi as unknown as Node)) {
      if (typeof $ref !== 'string') continue
      resolve({ $ref })
      refs.add($ref)
    }
    const { securitySchemes, ...components } = openapi.components
    const declared = Object.entries(components).flatMap(([kind, named]) =>
      Object.keys(named).map((name) => `#/components/${kind}/${name}`),
    )
    assert.deepEqual([...refs].toSorted(), declared.toSorted())
    assert.deepEqual(Object.keys(securitySchemes), ['bearer'])
  })

  test('every operationId is unique, every operation has a summary, a description and a declared tag', () => {
    const operations = operationsOf(openapi)
    assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, 7 + 24)
    const tags = new Map(openapi.tags.map(({ name, description }) => [name, description]))
    for (const { operationId, summary, description, tags: own } of operations) {
      assert.ok(summary && description, operationId)
      assert.ok(
        own.every((tag) => tags.get(tag)),
        operationId,
      )
    }
  })

  test('no schema names a dialect of its own', () => {
    assert.doesNotMatch(JSON.stringify(openapi), /jsonSchemaDialect|\$schema|\$defs/)
  })

  test('the document survives JSON unchanged, and is the same when built again', () => {
    assert.deepStrictEqual(JSON.parse(JSON.stringify(openapi)), openapi)
    assert.equal(JSON.stringify(build()), JSON.stringify(openapi))
  })
})
