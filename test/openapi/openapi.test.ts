import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { exampleId } from '../../lib/base/fields.ts'
import { syncToken } from '../../lib/http/list-query.ts'
import { EVENT_TYPES } from '../../lib/resources/event-catalogue.ts'
import { RECORD_TABLES } from '../../lib/resources/records.ts'
import { OPERATIONS as SPECIFIED } from '../api/_api.ts'
import {
  assertFits,
  build,
  compile,
  dataOf,
  isNode,
  type Node,
  nodesOf,
  openapi,
  operation,
  operationsOf,
  parameter,
  type Ref,
  resolve,
  response,
  type Schema,
  schema,
  schemasOf,
} from './_document.ts'

const OPERATIONS = SPECIFIED.map(
  ({ method, path, scope, item }) => [method === 'GET' ? 'get' : 'post', path, scope, item] as const,
)

const reads = OPERATIONS.filter(([method]) => method === 'get')
const writes = OPERATIONS.filter(([method]) => method === 'post')

/** Returns the guide in the document. */
function guideOf({ tags }: typeof openapi): string {
  return tags.find(({ name }) => name === 'Guide')?.description ?? assert.fail('no tag Guide')
}

describe('openapi operations (specification, section 4)', () => {
  test('the document has these operations and no others', () => {
    const found = Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    )
    assert.deepEqual(found.toSorted(), OPERATIONS.map(([method, path]) => `${method} ${path}`).toSorted())
  })

  for (const [method, path, scope, item] of OPERATIONS) {
    test(`${method} ${path} requires the scope ${scope} of a bearer key`, () => {
      const found = operation(method, path)
      assert.equal(found['x-required-scope'], scope)
      assert.match(found.description, new RegExp(scope))
      assert.deepEqual(found.security ?? openapi.security, [{ bearer: [] }])
    })

    test(`${method} ${path} responds with 200 and ${item} in data`, () => {
      const data = dataOf(operation(method, path))
      const ref = { $ref: `#/components/schemas/${item}` }
      assert.deepEqual(data, method === 'get' ? { type: 'array', maxItems: 200, items: ref } : ref)
      assert.deepEqual(Object.keys(response(operation(method, path), '200').headers ?? {}), [
        'X-Request-Id',
        'RateLimit',
        'RateLimit-Policy',
        ...(method === 'post' ? ['Idempotent-Replayed'] : ['Link', 'Sync-Token']),
      ])
    })
  }

  for (const [method, path] of reads) {
    test(`${method} ${path} has a limit, an integer from 1 to 200, 50 by default, and no body`, () => {
      const found = operation(method, path)
      const { in: place, required, schema: limit } = parameter(found, 'limit')
      assert.deepEqual([place, required, found.requestBody], ['query', undefined, undefined])
      assert.deepEqual(limit, { type: 'integer', format: 'int32', minimum: 1, maximum: 200, default: 50 })
    })
  }

  test('before is an id of the list', () => {
    const kinds = reads.map(([method, path]) => {
      const accepts = compile(parameter(operation(method, path), 'before').schema)
      assert.ok(!['', 'evt_1', 'cli_1 ', 'inv_1 '].some((text) => accepts(text)))
      return Object.values(RECORD_TABLES).filter(({ idKind }) => accepts(exampleId(idKind)))
    })
    assert.deepEqual(
      kinds.map((tables) => tables.map(({ kind }) => kind)),
      reads.map(([, , , item]) => [item.toLowerCase()]),
    )
  })

  for (const [method, path] of writes) {
    test(`${method} ${path} has a JSON body and an optional Idempotency-Key of up to 200 characters`, () => {
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
  test('bearer is HTTP bearer and describes the format of a key', () => {
    const { bearer } = build({}, { keyPrefix: 'acme' }).components.securitySchemes
    assert.ok(isNode(bearer))
    assert.deepEqual([bearer.type, bearer.scheme], ['http', 'bearer'])
    assert.match(String(bearer.description), /`acme_live_`/)
  })
})

describe('openapi statuses (specification, section 7)', () => {
  const listed = ['401', '403', '404', '422', '429']
  const onBodies = ['400', '409', '413', '415']

  for (const [method, path] of OPERATIONS) {
    test(`${method} ${path} lists all response statuses`, () => {
      const statuses = ['200', ...listed, '500', '503', ...(method === 'post' ? onBodies : [])]
      assert.deepEqual(Object.keys(operation(method, path).responses), statuses.toSorted())
    })
  }

  const created = operation('post', '/api/v1/clients')
  for (const status of [...listed, ...onBodies, '500', '503']) {
    test(`${status} has the format of an error, a description and its headers`, () => {
      const { description, content, headers = {} } = response(created, status)
      assert.ok(description.length > 10)
      assert.deepEqual(content?.['application/json'].schema, { $ref: '#/components/schemas/ErrorResponse' })
      // A request can also fail, or its key be revoked, after it was counted.
      assert.deepEqual(Object.keys(headers).toSorted(), [
        ...['RateLimit', 'RateLimit-Policy'],
        ...(['409', '429', '503'].includes(status) ? ['Retry-After'] : []),
        ...(['401', '403'].includes(status) ? ['WWW-Authenticate'] : []),
        'X-Request-Id',
      ])
    })
  }

  test('an error has error and requestId, both required', () => {
    assert.deepEqual(Object.keys(schema('ErrorResponse').properties ?? {}), ['error', 'requestId'])
    assert.deepEqual(schema('ErrorResponse').required, ['error', 'requestId'])
  })

  test('413 contains the maximum size', () => {
    const document = build({ maxBodyBytes: 1234 })
    const { description, content } = response(operation('post', '/api/v1/leads', document), '413', document)
    assert.match(description, /1234 bytes/)
    assert.match(JSON.stringify(content), /larger than 1234 bytes/)
  })

  test("the platform's rejections are mentioned under errors if and only if the host has onRequest", () => {
    const errorsOf = (document: typeof openapi): string =>
      /^## Errors$(.*?)^## /ms.exec(guideOf(document))?.[1] ?? assert.fail('no section Errors')
    const sentence = /The platform can also reject requests by its own rules/
    assert.match(errorsOf(build({ onRequest: () => null })), sentence)
    assert.doesNotMatch(errorsOf(openapi), sentence)
  })
})

describe('openapi limits (specification, section 8)', () => {
  test('the table of limits contains all limits of the specification, with those of fields from their schemas', () => {
    const rows = [
      ...['| `limit` | 1 to 200; defaults to 50 |', '| Request body | 65536 bytes |'],
      '| `Idempotency-Key` | 1 to 200 visible ASCII characters; stored for 7 days |',
      ...['name', 'category', 'city', 'email', 'phone'].map((name, index) => {
        const lengths = ['2 to 150', 'up to 80', 'up to 80', 'up to 254', 'up to 30']
        return `| \`${name}\` in CreateClientInput | ${lengths[index]} characters |`
      }),
      ...['| Webhook timeout | 10 seconds per attempt |', '| Webhook signature | valid for 300 seconds |'],
      '| Webhook attempts | 5, with delays of 30, 60, 120 and 240 seconds |',
    ]
    for (const row of rows) assert.ok(guideOf(openapi).split('\n').includes(row), row)
  })

  test("the headers contain the API's limits", () => {
    const limits = { key: { perSecond: 5, burst: 10 }, organization: { perSecond: 50, burst: 100 } }
    const { headers } = build({ rateLimit: limits }).components
    assert.deepEqual(
      [headers['RateLimit-Policy'], headers.RateLimit].map((header) => isNode(header) && header.example),
      ['"key";q=10;w=2, "org";q=100;w=2', '"key";r=9;t=1, "org";r=99;t=1'],
    )
    assert.match(
      guideOf(build({ rateLimit: limits })),
      /5 requests per second with bursts of 10, .*50 requests per second with bursts of 100\. /s,
    )
  })

  test("without limits, their headers aren't mentioned, but 429 is still listed", () => {
    const document = build({ rateLimit: false })
    assert.doesNotMatch(JSON.stringify(document), /RateLimit(-Policy)?["`]/)
    assert.ok('429' in operation('get', '/api/v1/leads', document).responses)
  })
})

describe('openapi document', () => {
  test('the document is OpenAPI 3.1 for the Business API 1.0.0', () => {
    assert.deepEqual(
      [openapi.openapi, openapi.info.title, openapi.info.version],
      ['3.1.0', 'Business API', '1.0.0'],
    )
    for (const topic of [
      'Authentication',
      'Pagination',
      'Syncing',
      'Errors',
      'Idempotent requests',
      'Rate limits',
      'Limits',
      'Webhooks',
    ]) {
      assert.match(guideOf(openapi), new RegExp(`^## ${topic}$`, 'm'))
    }
  })

  test("info contains the host's values and doesn't assume a license for the host", () => {
    assert.deepEqual(openapi.info.license, {
      name: 'LicenseRef-Proprietary',
      identifier: 'LicenseRef-Proprietary',
    })
    const info = {
      version: '2026-11',
      contact: { email: 'api@atlas.example' },
      license: { name: 'Terms', url: 'https://atlas.example/terms' },
      termsOfService: 'https://atlas.example/terms',
    }
    const {
      summary: _,
      description: __,
      ...said
    } = build({ info }, { name: 'Atlas API' }).info as Record<string, unknown>
    assert.deepEqual(said, { title: 'Atlas API', ...info })
  })

  test('each response and event has its own named schema', () => {
    const names = Object.keys(openapi.components.schemas)
    for (const name of ['ClientList', 'ClientResponse', 'LeadResponse', 'InvoiceList', 'ErrorResponse']) {
      assert.ok(names.includes(name), name)
    }
    assert.equal(names.filter((name) => name.endsWith('Event')).length, EVENT_TYPES.length + 1)
    assert.ok(!names.includes('Error'))
  })

  test('the description lists the scope of each operation and says that the secret is used as shown', () => {
    for (const [method, path, scope] of OPERATIONS) {
      assert.ok(guideOf(openapi).includes(`| \`${scope}\` | \`${method.toUpperCase()} ${path}\` |`), scope)
    }
    assert.match(guideOf(openapi), /`whsec_` included and nothing decoded/)
  })

  test('the server is baseUrl, or else basePath, or else the root', () => {
    const known = build({ basePath: '/x' }, { baseUrl: 'https://app.example.com/platform' })
    assert.deepEqual(
      [known, build({ basePath: '/platform' }), build()].map(({ servers }) => servers),
      [[{ url: 'https://app.example.com/platform' }], [{ url: '/platform' }], [{ url: '/' }]],
    )
  })

  test('all schemas compile in strict mode', () => {
    const schemas = schemasOf(openapi)
    assert.ok(schemas.length > 200)
    for (const [path, found] of schemas) assert.doesNotThrow(() => compile(found), path)
  })

  test('all examples match their schemas', () => {
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

  test('all bodies and parameters have an example, except those that tools must not combine with others', () => {
    const without = new Set(['before', 'Idempotency-Key'])
    for (const [path, node] of nodesOf(openapi as unknown as Node)) {
      if (without.has(String(node.name))) assert.ok(!('example' in node), path)
      else if (isNode(node.schema)) assert.ok('example' in node || 'examples' in node, path)
    }
  })

  test('a constant has no list with a single value next to it', () => {
    assert.doesNotMatch(JSON.stringify(openapi), /"enum"/)
  })

  test('WebhookEvent is one of the events, distinguished by type', () => {
    const { anyOf = [], discriminator } = schema('WebhookEvent')
    const bodies = Object.values(openapi.webhooks).map(
      ({ post }) => post.requestBody?.content['application/json'].schema,
    )
    assert.deepEqual(anyOf, bodies)
    assert.equal(discriminator?.propertyName, 'type')
    assert.deepEqual(
      Object.entries(discriminator.mapping),
      Object.keys(openapi.webhooks).map((type, index) => [type, anyOf[index]?.$ref]),
    )
  })

  test('Client has a different name in Go, where the API client is called Client', () => {
    const { 'x-go-name': go, 'x-ogen-name': ogen } = schema('Client') as Node
    assert.deepEqual([go, ogen], ['ClientRecord', 'ClientRecord'])
  })

  test('updatedSince is a time or a token', () => {
    const { schema: since } = parameter(operation('get', '/api/v1/leads'), 'updatedSince')
    const accepts = compile(since)
    for (const text of ['2026-03-14T09:26:53.589Z', '2026-03-14T09:26:53+01:00', syncToken('x')]) {
      assert.ok(accepts(text), text)
    }
    for (const text of ['2026-03-14 09:26', '', 'a b']) assert.ok(!accepts(text), text)
    assert.deepEqual(
      (resolve<Schema>(since as Schema | Ref).anyOf ?? []).map(({ format }) => format),
      ['date-time', undefined],
    )
  })

  test("the document covers what a program that can't see the settings page needs: paging, sync, no filters, no deletion, businessId", () => {
    for (const [method, path] of reads) {
      const { description } = operation(method, path)
      assert.match(description, /`Link`.*`updatedSince`.*Lists can't be filtered by status or name/)
    }
    assert.match(guideOf(openapi), /it can't update or delete them/)
    assert.match(
      schema('CreateLeadInput').properties?.businessId?.description ?? '',
      /`business\.id` of a client/,
    )
    for (const status of ['405', '501']) assert.ok(guideOf(openapi).includes(`\n| ${status} | `), status)
    assert.ok(openapi.info.description.length < 500)
  })

  test('all strings have a maximum length', () => {
    for (const [path, { type, maxLength, const: only }] of schemasOf(openapi)) {
      if ([type].flat().includes('string')) assert.ok(maxLength ?? only, path)
    }
  })

  test('all numbers have bounds, all integers are int32, all lists have a maximum length', () => {
    for (const [path, { type, minimum, maximum, format, maxItems }] of schemasOf(openapi)) {
      const types = [type].flat()
      if (types.includes('integer')) assert.equal(format, 'int32', path)
      if (types.includes('number')) assert.equal(format, 'double', path)
      if (types.includes('integer') || types.includes('number')) assert.ok(maximum !== undefined, path)
      if (types.includes('integer') || types.includes('number')) assert.ok(minimum !== undefined, path)
      if (types.includes('array')) assert.ok(maxItems, path)
    }
  })

  test('all objects allow unknown fields', () => {
    assert.doesNotMatch(JSON.stringify(openapi), /additionalProperties|unevaluatedProperties/)
  })

  test('all $refs can be resolved, and all components are used', () => {
    const refs = new Set<string>()
    for (const [, { $ref }] of nodesOf(openapi as unknown as Node)) {
      if (typeof $ref !== 'string') continue
      resolve({ $ref })
      refs.add($ref)
    }
    const { securitySchemes, pathItems, ...components } = openapi.components
    assert.deepEqual(Object.keys(pathItems), ['WebhookEvent'])
    const declared = Object.entries(components).flatMap(([kind, named]) =>
      Object.keys(named).map((name) => `#/components/${kind}/${name}`),
    )
    assert.deepEqual([...refs].toSorted(), declared.toSorted())
    assert.deepEqual(Object.keys(securitySchemes), ['bearer'])
  })

  test('all operationIds are unique, and all operations have a summary, a description and a declared tag', () => {
    const operations = operationsOf(openapi)
    assert.equal(
      new Set(operations.map(({ operationId }) => operationId)).size,
      OPERATIONS.length + EVENT_TYPES.length,
    )
    const tags = new Map(openapi.tags.map(({ name, description }) => [name, description]))
    for (const { operationId, summary, description, tags: own } of operations) {
      assert.ok(summary && description, operationId)
      assert.ok(
        own.every((tag) => tags.get(tag)),
        operationId,
      )
    }
  })

  test('no schema specifies a dialect', () => {
    assert.doesNotMatch(JSON.stringify(openapi), /jsonSchemaDialect|\$schema|\$defs/)
  })

  test('the document is unchanged by JSON and identical when built again', () => {
    assert.deepStrictEqual(JSON.parse(JSON.stringify(openapi)), openapi)
    assert.equal(JSON.stringify(build()), JSON.stringify(openapi))
  })
})
