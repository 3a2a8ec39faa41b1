import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import {
  createBusinessApi,
  defineService,
  type EventDefinition,
  type StandardSchema,
  withJsonSchema,
} from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { BOOKING, bookings, cancellation } from '../_own-events.ts'
import { ajv, build, type Node, nodesOf, openapi, operationsOf, resolve } from './_document.ts'

const document = build({}, bookings)

test('own events are webhooks in addition to the 24, with an example, their descriptions and names for body and data', () => {
  assert.deepEqual(Object.keys(document.webhooks), [
    ...Object.keys(openapi.webhooks),
    'booking.created',
    'booking.cancelled',
  ])
  const { post } = document.webhooks['booking.created'] ?? assert.fail()
  const { operationId, summary, description, requestBody } = post
  assert.deepEqual(
    [operationId, summary, description],
    ['onBookingCreated', 'A booking was made', 'A booking was made. Carries its room and its start.'],
  )
  const { schema, example } = requestBody?.content['application/json'] ?? assert.fail()
  assert.deepEqual(schema, { $ref: '#/components/schemas/BookingCreatedEvent' })
  assert.equal((example as { type: string }).type, 'booking.created')
  assert.equal(document.webhooks['booking.cancelled']?.post.summary, 'A booking was cancelled')
  const { schemas } = document.components
  assert.deepEqual(schemas.BookingCreatedEvent?.properties?.data, {
    $ref: '#/components/schemas/BookingCreatedEventData',
  })
  assert.deepEqual(
    schemas.WebhookEvent?.discriminator?.mapping['booking.cancelled'],
    '#/components/schemas/BookingCancelledEvent',
  )
  assert.equal(
    new Set(operationsOf(document).map((one) => one.operationId)).size,
    operationsOf(document).length,
  )
})

test('the data of own events is described by its schema as subscribers receive it', () => {
  const { BookingCreatedEventData: data, BookingCancelledEventData: cancelled } = document.components.schemas
  assert.deepEqual(data?.required, ['bookingId', 'room', 'startsAt'])
  assert.equal(data?.properties?.room?.properties?.name?.description, 'The name on the door.')
  assert.equal(data?.properties?.guests?.default, 1)
  // References in a host's JSON Schema point into the document.
  const reason = '#/components/schemas/BookingCancelledEventData/$defs/Reason'
  assert.deepEqual(cancelled?.properties?.reason, { $ref: reason })
  for (const [, { $ref }] of nodesOf(document as unknown as Node)) {
    if (typeof $ref === 'string') resolve({ $ref }, document)
  }
  const about = (name: string) =>
    ajv.compile({
      $ref: `#/components/schemas/${name}`,
      components: { schemas: document.components.schemas },
    })
  const envelope = { id: 'evt_1', type: 'booking.created', createdAt: '2026-03-14T09:00:00.000Z' }
  const isBooking = about('BookingCreatedEvent')
  assert.ok(isBooking({ ...envelope, data: { ...BOOKING, guests: 1 } }), ajv.errorsText(isBooking.errors))
  assert.ok(!isBooking({ ...envelope, data: { ...BOOKING, room: 'Atlas' } }))
  assert.ok(!about('BookingCancelledEventData')({ bookingId: 'b', reason: 'rain' }))
  for (const name of ['BookingCreatedEvent', 'BookingCancelledEvent', 'BookingCreatedEventData']) {
    for (const example of document.components.schemas[name]?.examples ?? [])
      assert.ok(about(name)(example), name)
  }
})

test('the rest of the document is the same as without own events', () => {
  const plain = build({}, { name: 'Rooms' })
  const schemas = Object.entries(document.components.schemas).filter(
    ([name]) => !/^Booking|^WebhookEvent$/.test(name),
  )
  const { WebhookEvent: _, ...plainSchemas } = plain.components.schemas
  assert.deepEqual(Object.fromEntries(schemas), plainSchemas)
  const { 'booking.created': __, 'booking.cancelled': ___, ...webhooks } = document.webhooks
  const components = { ...document.components, schemas: plain.components.schemas }
  assert.deepEqual({ ...document, webhooks, components }, plain)
})

const event = { type: 'note.added', description: 'A note', example: { id: 'n' } }
const describe = (definition: EventDefinition) =>
  createBusinessApi(createMemoryStore({ service: defineService({ events: [definition] }) }), {
    logger: false,
  })

test("createBusinessApi() rejects an event whose JSON Schema isn't known, and names it", () => {
  const odd = v.object({
    id: v.pipe(
      v.string(),
      v.check((id) => id !== ''),
    ),
  })
  assert.throws(() => describe({ ...event, data: odd }), {
    name: 'TypeError',
    message:
      /^Cannot describe event 'note\.added' in JSON Schema: give it one by withJsonSchema\(…\)\. The "check" action cannot be converted/,
  })
  const data = cancellation as StandardSchema<object>
  assert.throws(
    () => describe({ ...event, data, example: { bookingId: 'b', reason: 'host' } }),
    /event 'note\.added' in JSON Schema: give it one by withJsonSchema\(…\)\. 'test' gives none/,
  )
  assert.ok(describe({ ...event, data: withJsonSchema(odd, { type: 'object' }) }))
})

test("a library with Standard JSON Schema provides its own for the schema's output", () => {
  const standard = cancellation['~standard']
  const sides: string[] = []
  const output = ({ target }: { target: string }) => {
    sides.push(target)
    return { type: 'object', title: 'Note' }
  }
  const data: StandardSchema<object> = {
    '~standard': { ...standard, jsonSchema: { output, input: () => assert.fail('the input') } },
  }
  const service = defineService({ events: [{ ...event, data, example: { bookingId: 'b', reason: 'host' } }] })
  const { schemas } = build({}, service).components
  assert.deepEqual(schemas.NoteAddedEventData, {
    type: 'object',
    title: 'Note',
    examples: [{ bookingId: 'b', reason: 'host' }],
  })
  assert.deepEqual(sides, ['draft-2020-12'])
})

test('a recursive valibot schema keeps its references', () => {
  interface Tree {
    readonly leaves: readonly Tree[]
  }
  const tree: v.GenericSchema<Tree> = v.object({ leaves: v.array(v.lazy(() => tree)) })
  const service = defineService({ events: [{ ...event, data: tree, example: { leaves: [] } }] })
  const recursive = build({}, service)
  for (const [, { $ref }] of nodesOf(recursive as unknown as Node)) {
    if (typeof $ref === 'string') resolve({ $ref }, recursive)
  }
})
