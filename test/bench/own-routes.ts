import { join } from 'node:path'
import pg from 'pg'
import * as v from 'valibot'
import type { Route } from '../../lib/index.ts'
import type { PostgresPlatform } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { buildRequest } from '../api/_api.ts'

// The rate of a host's own routes on PostgreSQL, without a port, in turns A, B, B, A, beside:
// - the built-in create, whose statement makes up to 16 records of an organization at once
// - for `idempotent`, the same five statements of a transaction by hand
// - a built-in list whose page is the same query of the host's table: the same work
// - the built-in list, whose statement answers up to 16 requests: no statement of a host can be shared like that
// From dist, as a host runs it: tsx gives each function its name anew, which costs a microsecond.

const dist = join(import.meta.dirname, '../../dist')
const { createBusinessApi, defineRoute, defineService, page, readPage }: typeof import('../../lib/index.ts') =
  await import(`${dist}/index.js`)
const { createPlatform }: typeof import('../../lib/platform.ts') = await import(`${dist}/platform.js`)
const { createPostgresStore, pgTransaction }: typeof import('../../lib/postgres.ts') = await import(
  `${dist}/postgres.js`
)
const { createDeveloperSettings }: typeof import('../../lib/settings.ts') = await import(
  `${dist}/settings.js`
)
const { jsonText }: typeof import('../../lib/store.ts') = await import(`${dist}/store.js`)

const ROUNDS = 7
const TURN_MS = 1200
/** Parts of the names of work to run alone. */
const ONLY = process.argv.slice(2)
const AT_ONCE = 32
const LISTED = 50

const Client = v.object({ id: v.string(), business: v.object({ id: v.string(), name: v.string() }) })
const Booking = v.object({ id: v.string(), room: v.string(), starts: v.string(), guests: v.number() })
const about = { tag: 'Own', idempotent: false, method: 'POST' } as const

const createOwn: Route = defineRoute({
  ...about,
  path: '/own-clients',
  operationId: 'createOwn',
  summary: 'Create',
  scope: 'clients:write',
  body: v.object({ name: v.string(), key: v.string() }),
  response: v.object({ data: Client }),
  async handle({ organizationId, input }) {
    const { name, key } = input.body
    return { data: await platform.clients.create(organizationId, { name, idempotencyKey: key }) }
  },
})
const listOwn: Route = defineRoute({
  tag: 'Own',
  method: 'GET',
  path: '/bookings',
  operationId: 'listOwn',
  summary: 'List',
  scope: 'clients:read',
  paged: /^bkg_\d{4}$/,
  response: v.object({ data: v.array(Booking) }),
  async handle(context) {
    const { limit, before } = readPage(context)
    return page(await bookings(context.organizationId, before, limit), context)
  },
})

const createOnce: Route = defineRoute({
  ...about,
  idempotent: true,
  path: '/own-clients/once',
  operationId: 'createOnce',
  summary: 'Create once',
  scope: 'clients:write',
  body: v.object({ name: v.string() }),
  response: v.object({ data: Client }),
  handle(context) {
    const { organizationId, input } = context
    return inTransaction((client) => {
      const own = platform.using(pgTransaction(client))
      return own.idempotent(context, async () => ({
        data: await own.clients.create(organizationId, { name: input.body.name }),
      }))
    })
  },
})
// What a host would write without `idempotent`: the same statements on a table of its own.
const createByHand: Route = defineRoute({
  ...about,
  path: '/own-clients/by-hand',
  operationId: 'createByHand',
  summary: 'Create by hand',
  scope: 'clients:write',
  body: v.object({ name: v.string(), key: v.string() }),
  response: v.object({ data: Client }),
  handle({ organizationId, input: { body } }) {
    return inTransaction(async (client) => {
      await client.query('insert into replies values ($1, $2)', [organizationId, body.key])
      const own = platform.using(pgTransaction(client))
      const data = await own.clients.create(organizationId, { name: body.name })
      await client.query('update replies set reply = $3 where organization_id = $1 and key = $2', [
        organizationId,
        body.key,
        JSON.stringify({ data }),
      ])
      return { data }
    })
  },
})

async function inTransaction<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } finally {
    client.release()
  }
}

const service = defineService({ routes: [createOwn, createOnce, createByHand, listOwn] })
const database = await createTestDatabase()
const store = createPostgresStore(database.url, { service })
const pool = new pg.Pool({ connectionString: database.url })
const platform: PostgresPlatform = createPlatform(store)
const limit = { perSecond: 100_000, burst: 1_000_000 }
const rateLimit = { key: limit, organization: limit }
const api = createBusinessApi(store, { rateLimit })
const logged = createBusinessApi(store, { rateLimit, requestLog: 'all' })
const queried = createBusinessApi(
  {
    ...store,
    clients: {
      ...store.clients,
      async admitAndList(request, { limit: rows, before = null }) {
        const admission = await store.apiKeys.admit(request)
        if (admission.outcome !== 'admitted') return { admission, page: null }
        const found = await bookings(admission.caller.organizationId, before, rows)
        return { admission, page: jsonText(found.slice(0, rows)), next: found[rows - 1]?.id }
      },
    },
  },
  { rateLimit },
)
const newKey = { name: 'Load', scopes: ['clients:read', 'clients:write'] } as const
const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', newKey)
let made = 0

async function bookings(organizationId: string, before: string | null, rows: number) {
  const text =
    'select id, room, starts, guests from bookings where organization_id = $1 and ($2::text is null or id < $2) order by id desc limit $3'
  const found = await pool.query({ name: 'bookings', text, values: [organizationId, before, rows + 1] })
  return found.rows
}

async function get(path: string): Promise<void> {
  check(await api.fetch(buildRequest(path, { key })))
}
async function create(path: string, json: object, headers = {}): Promise<void> {
  check(await api.fetch(buildRequest(path, { key, headers, json })))
}

const WORK: Readonly<Record<string, readonly [beside: () => Promise<void>, own: () => Promise<void>]>> = {
  'create / built-in': [
    () => create('/api/v1/clients', { name: 'Atlas Ceramics' }, { 'Idempotency-Key': `key-${made++}` }),
    () => create('/api/v1/own-clients', { name: 'Atlas Ceramics', key: `key-${made++}` }),
  ],
  // One statement for several requests, beside five statements of a transaction: begin, key, record, reply, commit.
  'idempotent create / built-in': [
    () => create('/api/v1/clients', { name: 'Atlas Ceramics' }, { 'Idempotency-Key': `key-${made++}` }),
    () =>
      create('/api/v1/own-clients/once', { name: 'Atlas Ceramics' }, { 'Idempotency-Key': `key-${made++}` }),
  ],
  // The same five statements by hand, and the same record.
  'idempotent create / by hand': [
    () => create('/api/v1/own-clients/by-hand', { name: 'Atlas Ceramics', key: `key-${made++}` }),
    () =>
      create('/api/v1/own-clients/once', { name: 'Atlas Ceramics' }, { 'Idempotency-Key': `key-${made++}` }),
  ],
  'list / built-in with its query': [
    async () => check(await queried.fetch(buildRequest(`/api/v1/clients?limit=${LISTED}`, { key }))),
    () => get(`/api/v1/bookings?limit=${LISTED}`),
  ],
  'list / built-in': [
    () => get(`/api/v1/clients?limit=${LISTED}`),
    () => get(`/api/v1/bookings?limit=${LISTED}`),
  ],
  // Built-in both times.
  'list with request log / without': [
    () => get(`/api/v1/clients?limit=${LISTED}`),
    async () => check(await logged.fetch(buildRequest(`/api/v1/clients?limit=${LISTED}`, { key }))),
  ],
}

function check({ status }: Response): void {
  if (status !== 200) throw new Error(`The answer was ${status}`)
}

/** Requests a second. */
async function turn(work: () => Promise<void>): Promise<number> {
  const endsAt = performance.now() + TURN_MS
  let count = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (; performance.now() < endsAt; count++) await work()
    }),
  )
  return (count * 1000) / TURN_MS
}

await database.sql().unsafe(`
  create table replies (organization_id text, key text, reply text, primary key (organization_id, key));
  create table bookings (
    organization_id text, id text, room text, starts text, guests integer, primary key (organization_id, id)
  );
  insert into bookings
    select 'org_1', 'bkg_' || (1000 + n), 'Atlas Ceramics', '2026-03-14T09:00:00Z', n from generate_series(1, 1000) n;
  analyze bookings`)
for (let client = 0; client < LISTED; client++)
  await platform.clients.create('org_1', { name: 'Atlas Ceramics' })
for (const [name, [beside, own]] of Object.entries(WORK)) {
  if (ONLY.length > 0 && !ONLY.some((part) => name.includes(part))) continue
  const ratios: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const [a, b, c, d] = [await turn(beside), await turn(own), await turn(own), await turn(beside)]
    // The first round warms up.
    if (round > 0) ratios.push((b + c) / (a + d))
    if (round === ROUNDS)
      console.log(`${name}: ${Math.round((a + d) / 2)}/s, own ${Math.round((b + c) / 2)}/s`)
  }
  ratios.sort((one, other) => one - other)
  console.log(`own ${name}: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`)
}
await logged.requestLog.flush()
await pool.end()
await store.close()
await database.drop()
