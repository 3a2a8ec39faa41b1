import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { BusinessApiError, type Event, type EventsOf, type Service } from '../../lib/index.ts'
import { createMemoryStore, type MemoryStore } from '../../lib/memory.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresPlatform, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { captureWebhooks } from '../../lib/testing.ts'
import { createDeliveryLoop, createWebhookSender, receiveWebhook, signWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { BOOKING, bookings, type Cancellation } from '../_own-events.ts'
import { untyped } from '../delivery/_loop.ts'

type BookingEvents = EventsOf<typeof bookings>

let database: TestDatabase
let sql: Sql
let postgres: PostgresStore<typeof bookings>
before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  postgres = createPostgresStore(database.url, { service: bookings })
})
after(async () => {
  await postgres.close()
  await database.drop()
})

const stores: Readonly<Record<string, () => MemoryStore<typeof bookings> | PostgresStore<typeof bookings>>> =
  {
    memory: () => createMemoryStore({ service: bookings }),
    PostgreSQL: () => postgres,
  }

for (const [name, open] of Object.entries(stores)) {
  describe(`own events on ${name}`, () => {
    test('are published, delivered with a signature, and received with their types', async (t) => {
      const store = open()
      const platform: Platform<typeof bookings> = createPlatform(store)
      const development = { allowHttp: true, allowPrivateNetworks: true }
      const settings = createDeveloperSettings(store, { ...development, allowPlaintextSecrets: true })
      const organizationId = 'org_slice'
      const captured = await captureWebhooks<BookingEvents>({
        settings,
        organizationId,
        types: ['booking.created', 'invoice.paid'],
      })
      const sender = createWebhookSender(development)
      t.after(async () => {
        await captured.close()
        await sender.close()
      })
      const id = await platform.publish(organizationId, 'booking.created', BOOKING)
      await platform.publish(organizationId, 'booking.cancelled', { bookingId: 'bkg_7', reason: 'host' })
      await createDeliveryLoop(store, sender, { allowPlaintextSecrets: true, logger: false }).runOnce()
      const event = await captured.next('booking.created')
      const guests: number = event.data.guests
      assert.deepEqual([event.id, event.data], [id, { ...BOOKING, guests }])
      assert.equal(guests, 1)
      assert.deepEqual(captured.refusals, [])
      assert.equal(captured.events.length, 1)
      const { data } = await settings.deliveries.list(organizationId, {
        type: 'booking.created',
        subjectId: 'bkg_7',
      })
      assert.deepEqual(
        data.map(({ state, eventId }) => [state, eventId]),
        [['delivered', id]],
      )
    })

    const refused: readonly (readonly [
      what: string,
      type: string,
      data: unknown,
      fields: string[],
      about: RegExp,
    ])[] = [
      ['a misspelt type', 'booking.creatd', BOOKING, ['type'], /did you mean 'booking\.created'\?/],
      [
        'a name of every object',
        'toString',
        BOOKING,
        ['type'],
        /must be one of the catalogue's or the service's/,
      ],
      [
        'a wrong value',
        'booking.created',
        { ...BOOKING, room: { name: 4711 } },
        ['data.room.name'],
        /data\.room\.name must be string$/,
      ],
      [
        'a broken rule',
        'booking.created',
        { ...BOOKING, bookingId: '' },
        ['data.bookingId'],
        /data\.bookingId must have length >=1$/,
      ],
      [
        'data of another library’s schema',
        'booking.cancelled',
        { bookingId: 'b', reason: 4711 },
        ['data.reason'],
        /data\.reason must be as its schema says$/,
      ],
      [
        'NUL',
        'booking.created',
        { ...BOOKING, room: { name: '\0' } },
        ['data'],
        /data must be JSON without NUL/,
      ],
      [
        'a lone surrogate in a name',
        'booking.cancelled',
        untyped({ bookingId: '\ud800', reason: 'host' }),
        ['data'],
        /lone surrogate/,
      ],
      ['no data', 'booking.created', undefined, ['data'], /data must be Object$/],
    ]
    for (const [what, type, data, fields, about] of refused) {
      test(`publish() rejects ${what}, naming the field but no value`, async () => {
        const platform: Platform = createPlatform(open())
        const publishing = platform.publish('org_refused', untyped<'invoice.paid'>(type), untyped(data))
        await assert.rejects(publishing, (error) => {
          assert.ok(error instanceof BusinessApiError)
          assert.deepEqual([error.code, error.fields], ['invalid_event', fields])
          assert.match(error.message, about)
          assert.doesNotMatch(error.message, /4711/)
          return true
        })
      })
    }
  })
}

test('using(tx) publishes in the host’s own transaction or not at all', async () => {
  const platform: PostgresPlatform<typeof bookings> = createPlatform(postgres)
  const publish = (reason: Cancellation['reason']) =>
    sql.begin(async (tx) => {
      await platform.using(tx).publish('org_tx', 'booking.cancelled', { bookingId: reason, reason })
      if (reason === 'guest') throw new Error('undone')
    })
  await assert.rejects(publish('guest'), /undone/)
  await publish('host')
  const rows = await sql`select type, subject_id from business_api.events where organization_id = 'org_tx'`
  assert.deepEqual([...rows], [{ type: 'booking.cancelled', subject_id: null }])
})

test('receiveWebhook() supports a type map of the subscriber', async () => {
  const body = JSON.stringify({
    id: 'evt_1',
    type: 'booking.cancelled',
    createdAt: '',
    data: { bookingId: 'b', reason: 'host' },
  })
  const headers = { 'x-service-signature': signWebhook(body, 'secret', Math.floor(Date.now() / 1000)) }
  const request = new Request('https://x', { method: 'POST', headers, body })
  const { event } = await receiveWebhook<{ 'booking.cancelled': Cancellation }>(request, { secret: 'secret' })
  assert.equal(event.type === 'booking.cancelled' ? event.data.reason : null, 'host')
})

// Checked by the compiler: `npm run types` fails if a line below should be rejected and isn't.

/** @internal */
export async function typed(anyStore: PostgresStore, event: Event<BookingEvents>): Promise<void> {
  const platform = createPlatform(postgres)
  const settings = createDeveloperSettings(postgres)
  await platform.publish('o', 'booking.created', { ...BOOKING, guests: 2 })
  await platform.publish('o', 'invoice.paid', { invoiceId: 'i', number: 'n' })
  // @ts-expect-error no such type
  await platform.publish('o', 'booking.creatd', BOOKING)
  // @ts-expect-error a field is missing
  await platform.publish('o', 'booking.created', { bookingId: 'b' })
  // @ts-expect-error a field has another type
  await platform.publish('o', 'booking.cancelled', { bookingId: 'b', reason: 'rain' })
  // @ts-expect-error the data of another type
  await platform.publish('o', 'invoice.paid', BOOKING)
  await sql.begin((tx) => {
    // @ts-expect-error no such type, in a transaction
    return platform.using(tx).publish('o', 'booking.creatd', BOOKING)
  })
  // @ts-expect-error a store whose service is not known has the catalogue only
  await createPlatform(anyStore).publish('o', 'booking.created', BOOKING)
  await settings.endpoints.register('o', { url: 'https://x', types: ['booking.created', 'invoice.paid'] })
  // @ts-expect-error no such type
  await settings.endpoints.register('o', { url: 'https://x', types: ['booking.creatd'] })
  // @ts-expect-error no such type
  await settings.endpoints.sendTest('o', 'we_1', { type: 'booking.creatd' })
  // @ts-expect-error no such type
  await settings.deliveries.list('o', { type: 'booking.creatd' })
  // @ts-expect-error no such type
  await settings.events.list('o', { type: 'booking.creatd' })
  if (event.type === 'booking.created') {
    const room: string = event.data.room.name
    // @ts-expect-error no such field
    void (room === event.data.reason)
  }
  // @ts-expect-error no such type
  if (event.type === 'booking.creatd') return
  const service: Service = bookings
  void service
}
