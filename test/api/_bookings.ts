import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import * as v from 'valibot'
import {
  createBusinessApi,
  defineRoute,
  defineService,
  page,
  Refusal,
  type Route,
  readPage,
} from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresPlatform, pgTransaction } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { type Failure, record } from './_api.ts'

// A host with bookings, which have a paged list, a retrieval, and a create operation that is atomic with its event.

export const BookingSchema = v.object({
  id: v.pipe(v.string(), v.maxLength(64), v.examples(['bkg_1'])),
  room: v.pipe(
    v.string('must be a string'),
    v.minLength(1, 'must not be empty'),
    v.maxLength(80),
    v.examples(['Atlas']),
  ),
})

const TABLE = `
  create table bookings (
    organization_id text not null, id text not null, room text not null, primary key (organization_id, id)
  );
  create unique index on bookings (organization_id, room) where room = 'The only one'`

export interface BookingHost extends AsyncDisposable {
  readonly url: string
  readonly pool: pg.Pool
  readonly store: ReturnType<typeof createPostgresStore>
  readonly platform: PostgresPlatform
  readonly api: ReturnType<typeof createBusinessApi>
  readonly settings: ReturnType<typeof createDeveloperSettings>
  readonly failures: Failure[]
  /** Creates a key for an organization. By default, it has all booking scopes. */
  key(
    organizationId: string,
    scopes?: readonly `bookings:${'read' | 'write'}`[],
  ): Promise<{ id: string; key: string }>
  /** Runs `work` in a pg transaction. */
  transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T>
}

/** How a test can change what `createBooking` does. */
export interface BookingOptions {
  /** Called in the transaction before it commits. */
  readonly beforeCommit?: ((client: pg.PoolClient) => unknown) | undefined
  /** Additional routes. */
  readonly routes?: readonly Route[]
}

let bookings = 0

type Parts = Pick<BookingHost, 'pool' | 'platform' | 'transaction'> & Pick<BookingOptions, 'beforeCommit'>

/** Returns the booking routes. `parts` belongs to the host and is only known once a request is received. */
export function bookingRoutes(
  parts: () => Parts = () => {
    throw new Error('no host')
  },
): readonly Route[] {
  const listBookings: Route = defineRoute({
    method: 'GET',
    path: '/bookings',
    operationId: 'listBookings',
    summary: 'List bookings',
    tag: 'Bookings',
    scope: 'bookings:read',
    paged: /^bkg_[0-9]{1,12}$/,
    response: v.object({ data: v.array(BookingSchema) }),
    async handle(context) {
      const { limit, before } = readPage(context)
      const { rows } = await parts().pool.query(
        'select * from bookings where organization_id = $1 and ($2::text is null or id < $2) order by id desc limit $3',
        [context.organizationId, before, limit + 1],
      )
      return page(rows, context)
    },
  })

  const getBooking: Route = defineRoute({
    method: 'GET',
    path: '/bookings/{bookingId}',
    operationId: 'getBooking',
    summary: 'Get a booking',
    tag: 'Bookings',
    scope: 'bookings:read',
    errors: { 404: 'No such booking.' },
    response: v.object({ data: BookingSchema }),
    async handle({ organizationId, input }) {
      const { rows } = await parts().pool.query(
        'select * from bookings where organization_id = $1 and id = $2',
        [organizationId, input.params.bookingId],
      )
      if (rows[0] === undefined) throw new Refusal(404, 'Booking not found')
      return { data: rows[0] }
    },
  })

  const createBooking: Route = defineRoute({
    method: 'POST',
    path: '/bookings',
    operationId: 'createBooking',
    summary: 'Create a booking',
    tag: 'Bookings',
    scope: 'bookings:write',
    body: v.object({ room: BookingSchema.entries.room }),
    response: v.object({ data: BookingSchema }),
    handle(context) {
      const { transaction, platform, beforeCommit } = parts()
      return transaction((client) => {
        const own = platform.using(pgTransaction(client))
        const { organizationId, input } = context
        return own.idempotent(context, async () => {
          const booking = { id: `bkg_${String(++bookings).padStart(12, '0')}`, room: input.body.room }
          await client.query('insert into bookings values ($1, $2, $3)', [
            organizationId,
            booking.id,
            booking.room,
          ])
          await own.publish(organizationId, 'support.ticket_created', {
            ticketId: booking.id,
            subject: booking.room,
            status: 'open',
          })
          await beforeCommit?.(client)
          return { data: booking }
        })
      })
    },
  })

  return [listBookings, getBooking, createBooking]
}

export async function startBookingHost({
  beforeCommit,
  routes = [],
}: BookingOptions = {}): Promise<BookingHost> {
  const database = await createTestDatabase()
  const pool = new pg.Pool({ connectionString: database.url, max: 20 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  await pool.query(TABLE)

  async function transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    let failure: Error | undefined
    try {
      await client.query('begin')
      const result = await work(client)
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback').catch((lost) => {
        failure = lost
      })
      throw error
    } finally {
      client.release(failure)
    }
  }

  const own = bookingRoutes(() => ({ pool, platform, transaction, beforeCommit }))
  const service = defineService({
    scopes: ['bookings:read', 'bookings:write'],
    routes: [...own, ...routes],
  })
  const store = createPostgresStore(database.url, { service })
  const platform: PostgresPlatform = createPlatform(store)
  const settings = createDeveloperSettings(store, { maxApiKeys: 1000 })
  const failures: Failure[] = []
  const api = createBusinessApi(store, { logger: false, onError: record(failures), rateLimit: false })
  return {
    url: database.url,
    pool,
    store,
    platform,
    api,
    settings,
    failures,
    transaction,
    async key(organizationId, scopes = ['bookings:read', 'bookings:write']) {
      return settings.apiKeys.create(organizationId, { name: 'Test', scopes: scopes as never })
    },
    async [Symbol.asyncDispose]() {
      await store.close()
      await pool.end()
      // The server only closes its connection some time after the client.
      await sleep(10)
      await database.drop()
    },
  }
}
