import * as v from 'valibot'
import { defineEvent, defineService, type StandardSchema, withJsonSchema } from '../lib/index.ts'

// The events of a host with bookings: one with a schema of valibot, one with a Standard Schema of another library.

export const bookingCreated = defineEvent({
  type: 'booking.created',
  description: 'A booking was made. Carries its room and its start.',
  data: v.object({
    bookingId: v.pipe(v.string(), v.minLength(1), v.maxLength(40)),
    businessId: v.optional(v.string()),
    room: v.object({ name: v.pipe(v.string(), v.description('The name on the door.')) }),
    startsAt: v.pipe(v.string(), v.isoTimestamp()),
    guests: v.optional(v.number(), 1),
  }),
  example: { bookingId: 'bkg_1', room: { name: 'Atlas' }, startsAt: '2026-03-14T09:00:00Z', guests: 2 },
  subject: 'bookingId',
})

/** The data of `booking.cancelled`. */
export interface Cancellation {
  readonly bookingId: string
  readonly reason: 'guest' | 'host'
}

/** A schema as another library has it: nothing but `~standard`. */
export const cancellation: StandardSchema<Cancellation> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate(value) {
      const { bookingId, reason }: Partial<Cancellation> = Object(value)
      if (typeof bookingId !== 'string') return { issues: [{ message: `not ${value}`, path: ['bookingId'] }] }
      if (reason === 'guest' || reason === 'host') return { value: { bookingId, reason } }
      return { issues: [{ message: `not ${reason}`, path: [{ key: 'reason' }] }] }
    },
  },
}

export const bookingCancelled = defineEvent({
  type: 'booking.cancelled',
  description: 'A booking was cancelled',
  data: withJsonSchema(cancellation, {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { bookingId: { type: 'string' }, reason: { $ref: '#/$defs/Reason' } },
    required: ['bookingId', 'reason'],
    $defs: { Reason: { type: 'string', enum: ['guest', 'host'] } },
  }),
  example: { bookingId: 'bkg_1', reason: 'guest' },
})

export const bookings = defineService({ name: 'Rooms', events: [bookingCreated, bookingCancelled] })

export const BOOKING = {
  bookingId: 'bkg_7',
  room: { name: 'Écume 🏺' },
  startsAt: '2026-03-14T09:00:00Z',
}
