// An application that has bookings in addition to clients and invoices. They have their own table, a paged list, a POST
// that is safe to repeat and writes its event along with the booking, and a subscriber that verifies the webhook. All
// of this uses the API's keys, limits and document.
//
//   DATABASE_URL=postgres://… npx tsx examples/bookings.ts

import { randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  createBusinessApi,
  defineEvent,
  defineRoute,
  defineService,
  page,
  Refusal,
  type Route,
  readPage,
} from 'business-api-kit'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore, drizzleTransaction, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createWebhookSender, receiveWebhook } from 'business-api-kit/webhooks'
import { and, desc, eq, lt, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'
import * as v from 'valibot'

/** Our own table. Every row belongs to an organization. */
const bookings = pgTable('bookings', {
  organizationId: text('organization_id').notNull(),
  id: text().primaryKey(),
  room: text().notNull(),
})

const room = v.pipe(
  v.string('must be a string'),
  v.maxLength(80, 'must have at most 80 characters'),
  v.examples(['Atlas']),
)
const Booking = v.object({ id: v.pipe(v.string(), v.maxLength(64), v.examples(['bkg_1'])), room })

const bookingCreated = defineEvent({
  type: 'booking.created',
  description: 'A booking was made. Carries its room.',
  data: v.object({ bookingId: v.string(), room: v.string() }),
  example: { bookingId: 'bkg_1', room: 'Atlas' },
  subject: 'bookingId',
})

/** The running application. The routes exist before it, because it's created from a service that includes them. */
type Host = Awaited<ReturnType<typeof startHost>>

/** Defines the routes. @param host returns the application, which exists by the time a request arrives */
function bookingRoutes(host: () => Pick<Host, 'db' | 'platform'>): readonly Route[] {
  const about = { tag: 'Bookings', path: '/bookings' } as const

  const listBookings = defineRoute({
    ...about,
    method: 'GET',
    operationId: 'listBookings',
    summary: 'List bookings',
    scope: 'bookings:read',
    paged: /^bkg_[0-9a-f-]{1,59}$/,
    response: v.object({ data: v.array(Booking) }),
    async handle(context) {
      const { limit, before } = readPage(context)
      const isOwn = eq(bookings.organizationId, context.organizationId)
      const isWanted = before === null ? isOwn : and(isOwn, lt(bookings.id, before))
      // Select one more than we show to find out if there is another page.
      const rows = await host()
        .db.select()
        .from(bookings)
        .where(isWanted)
        .orderBy(desc(bookings.id))
        .limit(limit + 1)
      return page(rows, context)
    },
  })

  const createBooking = defineRoute({
    ...about,
    method: 'POST',
    operationId: 'createBooking',
    summary: 'Create a booking',
    scope: 'bookings:write',
    body: v.object({ room }),
    errors: { 409: 'The room is closed.' },
    response: v.object({ data: Booking }),
    handle(context) {
      const { organizationId, input } = context
      if (input.body.room === 'Closed') throw new Refusal(409, 'The room is closed')
      const { db, platform } = host()
      return db.transaction((tx) => {
        const own = platform.using(drizzleTransaction(tx, sql))
        // The key, the booking, the event and the response are written together or not at all.
        return own.idempotent(context, async () => {
          const booking = { id: `bkg_${randomUUID()}`, room: input.body.room }
          await tx.insert(bookings).values({ organizationId, ...booking })
          await own.publish(organizationId, 'booking.created', { bookingId: booking.id, room: booking.room })
          return { data: booking }
        })
      })
    },
  })

  return [listBookings, createBooking]
}

/** Starts the application on a migrated database, with the API and the delivery loop. */
export async function startHost(url: string) {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', ({ message }) => console.error(`Lost a connection: ${message}`))
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = drizzle(pool)
  const service = defineService({
    scopes: ['bookings:read', 'bookings:write'],
    events: [bookingCreated],
    routes: bookingRoutes(() => ({ db, platform })),
  })
  // This also stores the names of our events in the database. You'd normally create the table with drizzle-kit.
  await migrate(url, { service })
  await db.execute(
    sql`create table if not exists bookings (organization_id text not null, id text primary key, room text not null)`,
  )

  const store = createPostgresStore(url, { service })
  const platform = createPlatform(store)
  const development = { localDevelopment: true, allowPlaintextSecrets: true }
  const sender = createWebhookSender({ localDevelopment: true })
  const settings = createDeveloperSettings(store, { ...development, sender })
  const loop = createDeliveryLoop(store, sender, { allowPlaintextSecrets: true })
  const server = createServer(createBusinessApi(store))
  loop.start()
  return {
    db,
    platform,
    settings,
    url: await listen(server),
    async stop() {
      server.close()
      await loop.stop()
      await sender.close()
      await store.close()
      await pool.end()
    },
  }
}

/** Starts a subscriber that verifies each webhook. @param take called with the data of each booking */
export async function startSubscriber(
  secret: () => string,
  take: (booking: { bookingId: string; room: string }) => void,
) {
  const server = createServer(async (request, response) => {
    try {
      const { event } = await receiveWebhook<{ 'booking.created': { bookingId: string; room: string } }>(
        request,
        {
          secret: secret(),
        },
      )
      if (event.type === 'booking.created') take(event.data)
      response.writeHead(204).end()
    } catch (error) {
      response.writeHead(Number(Object(error).status ?? 500)).end()
    }
  })
  return { url: await listen(server), stop: () => server.close() }
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function main(): Promise<void> {
  const { DATABASE_URL } = process.env
  if (!DATABASE_URL) {
    console.error('Usage: DATABASE_URL=postgres://… npx tsx examples/bookings.ts')
    process.exit(2)
  }
  const host = await startHost(DATABASE_URL)
  const organizationId = `org_${randomUUID()}`
  const { key } = await host.settings.apiKeys.create(organizationId, {
    name: 'Website',
    scopes: ['bookings:read', 'bookings:write'],
  })
  let secret = ''
  let arrived: (room: string) => void = () => {}
  const received = new Promise<string>((resolve) => {
    arrived = resolve
  })
  const subscriber = await startSubscriber(
    () => secret,
    (booking) => arrived(booking.room),
  )
  secret = (
    await host.settings.endpoints.register(organizationId, {
      url: subscriber.url,
      types: ['booking.created'],
    })
  ).secret

  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': 'form-1',
  }
  const create = async () => {
    const body = JSON.stringify({ room: 'Atlas' })
    return fetch(`${host.url}/api/v1/bookings`, { method: 'POST', headers, body })
  }
  const [first, second] = [await create(), await create()]
  console.log('Created:', (await first.text()) === (await second.text()) ? 'once' : 'twice')
  const list = await (await fetch(`${host.url}/api/v1/bookings?limit=10`, { headers })).json()
  console.log('Listed:', (list as { data: unknown[] }).data.length)
  console.log('Received:', await received)
  subscriber.stop()
  await host.stop()
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
