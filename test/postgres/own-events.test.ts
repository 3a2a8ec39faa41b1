import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { defineService } from '../../lib/service.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { captureWebhooks } from '../../lib/testing.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { BOOKING, bookingCancelled, bookingCreated, bookings } from '../_own-events.ts'
import { createRoles } from '../store/_roles.ts'

let database: TestDatabase
let sql: Sql
before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
})
after(() => database.drop())

const publish = (on: Sql, type: string, data: object = { bookingId: 'bkg_1' }) =>
  on<
    { id: string }[]
  >`select business_api.publish_event('org_sql', ${type}, ${JSON.stringify(data)}::text) as id`

const registered = async () => {
  const rows = await sql`select type, subject from business_api.event_types order by type`
  return rows.map(({ type, subject }) => [type, subject])
}

const UNKNOWN = {
  code: '22023',
  message: 'Cannot publish an event because booking.created is not a type of event',
  hint: /migrate with --service/,
}

test('publish_event() only accepts the names that migrate() has registered for a service', async (t) => {
  await assert.rejects(publish(sql, 'booking.created'), UNKNOWN)
  const { current } = await migrate(sql)
  assert.deepEqual(await migrate(sql, { service: defineService() }), { applied: [], current })
  const [first, second] = [
    defineService({ events: [bookingCreated] }),
    defineService({ events: [bookingCancelled] }),
  ]
  assert.deepEqual(await migrate(sql, { service: first }), {
    applied: [],
    current,
    events: ['booking.created'],
  })
  // A version of the host without it doesn't remove a name, in any order.
  assert.deepEqual((await migrate(database.url, { service: second })).events, ['booking.cancelled'])
  assert.deepEqual((await migrate(sql, { service: first })).events, [])
  assert.deepEqual(await registered(), [
    ['booking.cancelled', null],
    ['booking.created', 'bookingId'],
  ])

  const [event] = await publish(sql, 'booking.created')
  await publish(sql, 'booking.cancelled')
  for (const type of ['booking.creatd', 'booking', 'Booking.created', ''])
    await assert.rejects(publish(sql, type), { code: '22023', message: /is not a type of event$/ })
  const rows =
    await sql`select id, type, subject_id, body from business_api.events where organization_id = 'org_sql' order by type`
  assert.deepEqual(
    rows.map(({ type, subject_id }) => [type, subject_id]),
    [
      ['booking.cancelled', null],
      ['booking.created', 'bkg_1'],
    ],
  )
  assert.deepEqual(JSON.parse(rows[1]?.body).id, event?.id)

  await t.test('with minimum privileges, a publisher can read the names but not add any', async (part) => {
    const roles = await createRoles(database)
    part.after(() => roles.close())
    const publisher = roles.pool('publisher')
    await publish(publisher, 'booking.created')
    const adding = publisher`insert into business_api.event_types (type) values ('room.opened')`
    await assert.rejects(adding, { code: '42501' })
  })
})

test('a changed subject is registered again, and many processes can register at the same time', async () => {
  const service = defineService({ events: [bookingCreated, { ...bookingCancelled, subject: 'bookingId' }] })
  await Promise.all(Array.from({ length: 6 }, () => migrate(database.url, { service })))
  assert.deepEqual(await registered(), [
    ['booking.cancelled', 'bookingId'],
    ['booking.created', 'bookingId'],
  ])
})

test("the database rejects names that a service couldn't have", async () => {
  for (const type of ['booking', 'Booking.created', 'booking.created ', `a.${'b'.repeat(63)}`, ''])
    await assert.rejects(sql`insert into business_api.event_types (type) values (${type})`, { code: '23514' })
})

test('a loop and settings of a version without the type deliver, show and resend its events', async (t) => {
  const [older, newer] = [
    createPostgresStore(database.url),
    createPostgresStore(database.url, { service: bookings }),
  ]
  const development = { allowHttp: true, allowPrivateNetworks: true, allowPlaintextSecrets: true }
  const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
  const organizationId = 'org_versions'
  const captured = await captureWebhooks<{ 'booking.created': object }>({
    settings: createDeveloperSettings(newer, development),
    organizationId,
    types: ['booking.created'],
  })
  t.after(async () => {
    await captured.close()
    await sender.close()
    await Promise.all([older.close(), newer.close()])
  })
  const id = await createPlatform(newer).publish(organizationId, 'booking.created', BOOKING)
  const loop = createDeliveryLoop(older, sender, { allowPlaintextSecrets: true, logger: false })
  assert.equal((await loop.runOnce()).delivered, 1)
  assert.equal((await captured.next('booking.created')).id, id)

  const settings = createDeveloperSettings(older, development)
  const [delivery] = (await settings.deliveries.list(organizationId)).data
  assert.deepEqual([delivery?.type, delivery?.state], ['booking.created', 'delivered'])
  assert.equal((await settings.events.get(organizationId, id)).type, 'booking.created')
  await settings.deliveries.redeliver(organizationId, delivery?.id ?? '')
  assert.equal((await loop.runOnce()).delivered, 1)
})
