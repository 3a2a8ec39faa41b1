import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import * as v from 'valibot'
import {
  createBusinessApi,
  defineRoute,
  defineService,
  type Route,
  type StandardSchema,
  withJsonSchema,
} from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { bookingRoutes } from '../api/_bookings.ts'
import {
  type Document,
  type Node,
  nodesOf,
  openapi,
  operationsOf,
  type Parameter,
  type Ref,
  resolve,
} from './_document.ts'

// Tests the host's routes in the OpenAPI document.

const SCOPES = ['bookings:read', 'bookings:write'] as const

function describeWith(routes: readonly Route[]): Document {
  const service = defineService({ scopes: SCOPES, routes })
  return createBusinessApi(createMemoryStore({ service })).describe() as Document
}

const own = describeWith(bookingRoutes())

describe('the document with own routes', () => {
  test("doesn't change the built-in operations", () => {
    for (const [path, methods] of Object.entries(openapi.paths)) assert.deepEqual(own.paths[path], methods)
    assert.deepEqual(Object.keys(own.paths).slice(Object.keys(openapi.paths).length), [
      '/api/v1/bookings',
      '/api/v1/bookings/{bookingId}',
    ])
  })

  test('contains the scope, parameters, body, response and errors of each', () => {
    const { post, get } = own.paths['/api/v1/bookings'] ?? {}
    const one = own.paths['/api/v1/bookings/{bookingId}']?.get
    assert.ok(post && get && one)
    const names = (operation: typeof get) =>
      operation.parameters.map((each) => resolve<{ name: string }>(each as never, own).name)
    assert.deepEqual(names(get), ['limit', 'before'])
    assert.deepEqual(names(post), ['Idempotency-Key'])
    assert.deepEqual(names(one), ['bookingId'])
    assert.equal(post['x-required-scope'], 'bookings:write')
    assert.match(post.description, /Required scope: `bookings:write`/)
    assert.deepEqual(post.requestBody?.content['application/json']?.example, { room: 'Atlas' })
    assert.deepEqual(
      Object.keys(post.responses),
      '200 400 401 403 404 409 413 415 422 429 500 503'.split(' '),
    )
    assert.match(
      resolve<{ description: string }>(one.responses['404'] as never, own).description,
      /^No such booking\./,
    )
    assert.deepEqual(
      Object.keys(own.components.schemas).filter((name) => name.includes('Booking')),
      ['ListBookingsResult', 'CreateBookingInput', 'CreateBookingResult', 'GetBookingResult'],
    )
  })

  test('has no unresolved references, and each operationId and tag only once', () => {
    for (const [path, node] of nodesOf(own as unknown as Node)) {
      if (typeof node.$ref === 'string') assert.ok(resolve({ $ref: node.$ref }, own), path)
    }
    const ids = operationsOf(own).map(({ operationId }) => operationId)
    assert.equal(new Set(ids).size, ids.length)
    const tags = own.tags.map(({ name }) => name)
    assert.equal(new Set(tags).size, tags.length)
    for (const operation of operationsOf(own))
      assert.ok(tags.includes(operation.tags[0] ?? ''), operation.operationId)
    assert.ok(
      own.tags
        .find(({ name }) => name === 'Guide')
        ?.description.includes('`bookings:write` | `POST /api/v1/bookings`'),
    )
  })

  test("uses the JSON Schema attached to another library's schema, including its definitions", () => {
    const room: StandardSchema<{ room: string }> = {
      '~standard': {
        version: 1,
        vendor: 'other',
        validate: (value) => ({ value: value as { room: string } }),
      },
    }
    const jsonSchema = {
      type: 'object',
      properties: { room: { $ref: '#/$defs/Room' } },
      required: ['room'],
      $defs: { Room: { type: 'string', maxLength: 80 } },
    }
    const declared = {
      method: 'PUT',
      path: '/rooms/{roomId}',
      operationId: 'putRoom',
      summary: 'Put a room',
      tag: 'Clients',
      scope: 'clients:write',
      idempotent: false,
      response: withJsonSchema(room, jsonSchema),
      handle: () => ({ room: 'Atlas' }),
    } as const
    const document = describeWith([defineRoute(declared)])
    const schema = document.components.schemas.PutRoomResult
    assert.deepEqual(schema?.properties?.room, { $ref: '#/components/schemas/PutRoomResult/$defs/Room' })
    const fits = new Ajv2020({ strict: true }).addVocabulary(['components']).compile({
      $ref: '#/components/schemas/PutRoomResult',
      components: { schemas: { PutRoomResult: schema } },
    })
    assert.ok(fits({ room: 'Atlas' }))
    assert.ok(!fits({ room: 1 }))
    const unknown = defineRoute({ ...declared, response: room })
    assert.throws(() => describeWith([unknown]), /'response' of route putRoom in JSON Schema.*withJsonSchema/)
    const unsaid = defineRoute({
      ...declared,
      response: v.pipe(
        v.string(),
        v.check(() => true),
      ) as never,
    })
    assert.throws(() => describeWith([unsaid]), /'response' of route putRoom in JSON Schema/)
  })

  const declared = {
    method: 'GET',
    path: '/rooms',
    operationId: 'listRooms',
    summary: 'List rooms',
    tag: 'Rooms',
    scope: 'clients:read',
    response: v.object({ data: v.string() }),
    handle: () => ({ data: 'Atlas' }),
  } as const
  const Rooms = v.object({ name: v.string() })

  test('lists exactly the errors that an operation can return', () => {
    const document = describeWith([
      defineRoute({ ...declared, operationId: 'plain' }),
      defineRoute({ ...declared, path: '/queried', operationId: 'queried', query: Rooms }),
      defineRoute({ ...declared, path: '/paged', operationId: 'paged', paged: /^r/ }),
      defineRoute({ ...declared, method: 'DELETE', operationId: 'once', idempotent: false }),
      defineRoute({ ...declared, method: 'PUT', operationId: 'bodied', idempotent: false, body: Rooms }),
      defineRoute({ ...declared, method: 'POST', operationId: 'keyed' }),
    ])
    const statuses = (id: string) => {
      const operation = operationsOf(document).find(({ operationId }) => operationId === id)
      return Object.keys(operation?.responses ?? {}).filter(
        (status) => !/^(200|401|403|404|429|500|503)$/.test(status),
      )
    }
    assert.deepEqual(['plain', 'queried', 'paged', 'once', 'bodied', 'keyed'].map(statuses), [
      [],
      ['422'],
      ['422'],
      ['422'],
      ['400', '413', '415', '422'],
      ['409', '422'],
    ])
  })

  test("doesn't change the contents of the library's schemas, and never uses a name that oapi-codegen generates for an operation", () => {
    const { schemas } = describeWith(
      ['client', 'lead', 'error', 'createPayment'].map((operationId) =>
        defineRoute({ ...declared, operationId, path: `/${operationId}`, query: Rooms }),
      ),
    ).components
    for (const [name, schema] of Object.entries(openapi.components.schemas))
      assert.deepEqual(schemas[name], schema)
    for (const name of ['ClientResult', 'CreatePaymentResult']) assert.ok(schemas[name], name)
    for (const name of ['CreatePaymentResponse', 'CreatePaymentParams'])
      assert.equal(schemas[name], undefined)
  })

  test("contains the library's tags once, even if a route uses one", () => {
    const own = ['Webhooks', 'Guide', 'Clients', 'Rooms'].map((tag, index) =>
      defineRoute({ ...declared, tag, path: `/r${index}`, operationId: `r${index}` }),
    )
    const names = describeWith(own).tags.map(({ name }) => name)
    assert.deepEqual(names, [...new Set(names)])
    assert.ok(names.includes('Rooms'))
  })

  for (const name of ['after', 'limit', 'before', 'updatedSince']) {
    test(`rejects a list whose query has ${name}, which every list reads or rejects`, () => {
      const query = v.object({ [name]: v.string() })
      assert.doesNotThrow(() => describeWith([defineRoute({ ...declared, query })]))
      assert.throws(
        () => describeWith([defineRoute({ ...declared, query, paged: /^r/ })]),
        new RegExp(`route listRooms because its query has '${name}'`),
      )
    })
  }

  test('describes a query whose parts refer to definitions, and rejects one without names', () => {
    const jsonSchema = {
      type: 'object',
      properties: { name: { $ref: '#/$defs/Name' } },
      $defs: { Name: { type: 'string', maxLength: 80 } },
    }
    const document = describeWith([defineRoute({ ...declared, query: withJsonSchema(Rooms, jsonSchema) })])
    const [parameter] = document.paths['/api/v1/rooms']?.get?.parameters ?? []
    assert.deepEqual(resolve((parameter as Parameter).schema as Ref, document), {
      type: 'string',
      maxLength: 80,
    })
    const either = v.union([Rooms, v.object({ floor: v.string() })])
    assert.throws(
      () => describeWith([defineRoute({ ...declared, query: either })]),
      /'query' of route listRooms .* properties/,
    )
  })
})
