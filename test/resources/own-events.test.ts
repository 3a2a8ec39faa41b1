import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as v from 'valibot'
import { defineEvent, defineService, EVENT_TYPES, type EventDefinition } from '../../lib/index.ts'
import { bookingCancelled, bookingCreated, bookings, cancellation } from '../_own-events.ts'
import { untyped } from '../delivery/_loop.ts'

const NOTED = {
  type: 'note.added',
  description: 'A note was added',
  data: v.object({ id: v.string() }),
  example: { id: 'n' },
}
const noted = (changes: object): EventDefinition =>
  defineEvent(untyped<typeof NOTED>({ ...NOTED, ...changes }))

describe('defineEvent()', () => {
  const refused: readonly (readonly [what: string, changes: object, about: RegExp])[] = [
    ...[
      'note',
      'note.',
      '.added',
      'Note.added',
      'note.added.twice',
      'note-x.added',
      'note._added',
      'nöte.added',
      'note.added\n',
      `a.${'b'.repeat(63)}`,
      7,
      undefined,
    ].map(
      (type) =>
        [`the type ${JSON.stringify(type)}`, { type }, /a noun and a verb like 'booking\.created'/] as const,
    ),
    ...EVENT_TYPES.map((type) => [`the type ${type}`, { type }, /the catalogue has this type/] as const),
    ['no description', { description: ' ' }, /'description' must be a string/],
    ['no schema', { data: { id: 'string' } }, /'data' must be a schema/],
    ['an example that the schema rejects', { example: { id: 7 } }, /because example\.id must be string$/],
    ['no example', { example: undefined }, /because example must be Object$/],
    ['data that is no object', { data: v.array(v.string()), example: ['a'] }, /example must be an object/],
    ['an example that is no JSON', { data: v.looseObject({}), example: { n: 1n } }, /example must be JSON/],
    ['an example with NUL', { example: { id: 'a\0' } }, /example must be JSON without NUL/],
    [
      'an asynchronous schema',
      {
        data: v.pipeAsync(
          v.object({ id: v.string() }),
          v.checkAsync(async () => true),
        ),
      },
      /synchronously/,
    ],
    ['a subject that the example lacks', { subject: 'noteId' }, /'subject' must name a field of the example/],
    ['a subject that is no name', { subject: "id'" }, /'subject' must name a field/],
    ['a misspelt name', { exmple: {} }, /'exmple' does not exist.*example/],
  ]
  for (const [what, changes, about] of refused) {
    test(`rejects ${what}`, () => assert.throws(() => noted(changes), about))
  }

  test('accepts any Standard Schema, and names like those of the catalogue', () => {
    for (const type of ['note.added', 'client.merged', 'support.ticket_closed', 'a1.b2', 'a.b'])
      assert.equal(noted({ type }).type, type)
    assert.equal(noted({ data: Object.assign(() => {}, NOTED.data) }).type, 'note.added')
    assert.throws(() => Object.assign(bookingCreated, { type: 'x.y' }), TypeError)
  })
})

describe('defineService({ events })', () => {
  const refused: readonly (readonly [what: string, events: unknown, about: RegExp])[] = [
    ['no list', NOTED, /'events' must be a list of at most 200/],
    [
      'more than 200',
      Array.from({ length: 201 }, (_, index) => noted({ type: `note.n${index}` })),
      /at most 200/,
    ],
    [
      'an event twice',
      [noted({}), bookingCreated, noted({})],
      /'note\.added' and 'note\.added' are both NoteAdded/,
    ],
    ['an event that defineEvent() would reject', [{ ...NOTED, type: 'Note' }], /a noun and a verb/],
    [
      'two events of the same name in the document',
      [noted({ type: 'note.a_b' }), noted({ type: 'note_a.b' })],
      /'note_a\.b' and 'note\.a_b' are both NoteAB in the document/,
    ],
    [
      'a name that the catalogue has in the document',
      [noted({ type: 'support_ticket.created' })],
      /'support\.ticket_created' are both SupportTicketCreated/,
    ],
  ]
  for (const [what, events, about] of refused) {
    test(`rejects ${what}`, () =>
      assert.throws(() => defineService({ events: untyped<EventDefinition[]>(events) }), {
        name: 'TypeError',
        message: about,
      }))
  }

  test('returns the same if its result is passed again, with up to 200 events', () => {
    assert.deepEqual(defineService(bookings), bookings)
    assert.deepEqual(bookings.events, [bookingCreated, bookingCancelled])
    assert.deepEqual(defineService().events, [])
    const events = Array.from({ length: 200 }, (_, index) => noted({ type: `note.n${index}` }))
    assert.equal(defineService({ events }).events.length, 200)
  })
})

// Checked by the compiler. `npm run types` fails if it accepts one of the invalid lines below.

/** @internal */
export function typed(): void {
  // @ts-expect-error the example has another type
  defineEvent({ ...NOTED, example: { id: 7 } })
  // @ts-expect-error the example lacks a field
  defineEvent({ ...NOTED, data: cancellation, example: { bookingId: 'b' } })
  // @ts-expect-error no field of the data
  defineEvent({ ...NOTED, subject: 'noteId' })
  // @ts-expect-error data is no object
  defineEvent({ ...NOTED, data: v.string(), example: 'x' })
  // @ts-expect-error no event
  defineService({ events: [NOTED.data] })
}
