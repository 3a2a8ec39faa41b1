import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPlatform, type ImportRecord } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresPlatform, type PostgresStore } from '../../lib/postgres.ts'
import type { Client } from '../../lib/resources/clients.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { assertCopies } from './_representations.ts'
import { clientsOf, createMirror } from './_sync.ts'

// Lists of clients show copies of businesses. Here the businesses and clients are written by the library and by SQL of a host, in
// turns and at the same time, and every list is compared with the businesses themselves.

const ids = createIds()

let database: TestDatabase
let sql: Sql
let store: PostgresStore
let platform: PostgresPlatform
let organizations = 0
let org = ''

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 10 })
  store = createPostgresStore(database.url)
  platform = createPlatform(store)
})
after(async () => {
  await store.close()
  await database.drop()
})
afterEach(() => assertCopies(sql))

function newOrganization(): string {
  org = `org_copies_${++organizations}`
  return org
}

async function insertKey(): Promise<string> {
  const key = generateApiKey('bapi')
  await store.apiKeys.insert({
    organizationId: org,
    limit: 1000,
    key: {
      id: ids('key'),
      digest: digestApiKey(key),
      name: 'Lists',
      scopes: ['clients:read'],
      prefix: 'bapi_live_',
      lastFour: key.slice(-4),
      rateLimit: null,
      createdAt: new Date().toISOString(),
      expiresAt: null,
    },
    entry: newEntry(),
  })
  return digestApiKey(key)
}

/** Reads all clients of the organization by every kind of list, compares with the tables, and returns the names of the businesses, sorted. */
async function readLists(): Promise<readonly string[]> {
  const expected = await clientsOf(sql, org)
  const request = { keyDigest: await insertKey(), scope: 'clients:read', rateLimits: null } as const
  const newest = await store.clients.admitAndList(request, { limit: 200 })
  assert.deepEqual(byId(JSON.parse(String(newest.page))), expected, 'newest')
  const older: Client[] = []
  for (let before: string | null | undefined = 'cli_~'; before != null; ) {
    const { page, next }: { page: unknown; next?: string | null | undefined } =
      await store.clients.admitAndList(request, { limit: 1, before })
    older.push(...JSON.parse(String(page)))
    before = next
  }
  assert.deepEqual(byId(older), expected, 'before')
  const mirror = await createMirror(store, org)
  await mirror.sync()
  assert.deepEqual(mirror.records, expected, 'by time')
  // The first page after the pass is a list in the order of transactions.
  const since = { position: (await firstPosition()) ?? '' }
  const { page } = await store.clients.admitAndList(request, { limit: 200, since })
  assert.deepEqual(byId(JSON.parse(String(page))), expected, 'by transaction')
  return [...expected.values()].map(({ business }) => business.name).sort()
}

/** The position before every transaction. */
async function firstPosition(): Promise<string> {
  const mirror = await createMirror(store, org)
  await mirror.sync()
  const { position } = mirror.position as { position: string }
  return position.replace(/^(c \S+) \d+/, '$1 0')
}

function byId(clients: readonly Client[]): ReadonlyMap<string, Client> {
  return new Map(clients.map((client) => [client.id, client]))
}

/** The clients with a copy of the present business. */
async function countCopies(): Promise<number> {
  const [row] = await sql`
    select count(*)::int as count from business_api.clients where organization_id = ${org} and has_copy`
  return row?.count
}

async function isMarkedBy(work: () => Promise<unknown>, clientId: string): Promise<boolean> {
  const read = async (): Promise<unknown> =>
    (
      await sql`
        select changed_xid::text as xid from business_api.clients where organization_id = ${org} and id = ${clientId}`
    )[0]?.xid
  const earlier = await read()
  await work()
  return (await read()) !== earlier
}

const setName = (businessId: string, name: string) => sql`
  update business_api.businesses set name = ${name} where organization_id = ${org} and id = ${businessId}`

const giveBusiness = (clientId: string, businessId: string, through: Pick<Sql, 'unsafe'> = sql) =>
  through.unsafe('update business_api.clients set business_id = $3 where organization_id = $1 and id = $2', [
    org,
    clientId,
    businessId,
  ])

const insertClient = (businessId: string, through: Pick<Sql, 'unsafe'> = sql) =>
  through.unsafe(
    `insert into business_api.clients
      (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at)
    values ($1, $2, $3, 'active', 0, 0, now())`,
    [org, ids('cli'), businessId],
  )

const renew = (businessId: string) => sql`select business_api.renew_copy(${org}, ${businessId})`

/** The ways in which a business is changed beside a writer of clients. */
const CHANGES: Readonly<Record<string, (tx: TransactionSql, businessId: string) => Promise<unknown>>> = {
  'a change by the platform': (tx, businessId) =>
    platform.using(tx).businesses.update(org, { businessId, name: 'Changed' }),
  'a change by SQL': (tx, businessId) =>
    tx`update business_api.businesses set name = 'Changed' where organization_id = ${org} and id = ${businessId}`,
  'a change by SQL with renew_copy()': async (tx, businessId) => {
    await tx`
      update business_api.businesses set name = 'Changed' where organization_id = ${org} and id = ${businessId}`
    await tx`select business_api.renew_copy(${org}, ${businessId})`
  },
}

describe('a list of clients', () => {
  test('shows a business that was changed by SQL, and changed back, at once', async () => {
    const { business } = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    await platform.clients.create(org, { name: 'Byrsa' })
    assert.deepEqual(await readLists(), ['Atlas', 'Byrsa'])
    await setName(business.id, 'Atlas Ltd')
    assert.deepEqual(await readLists(), ['Atlas Ltd', 'Byrsa'])
    await setName(business.id, 'Atlas')
    assert.deepEqual(await readLists(), ['Atlas', 'Byrsa'])
    assert.equal(await countCopies(), 2)
  })

  test('shows a business that renew_copy() has copied after a change by SQL, and the client as changed', async () => {
    const { id, business } = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    await setName(business.id, 'Atlas Ltd')
    assert.equal(await isMarkedBy(() => renew(business.id), id), true)
    const [row] = await sql`
      select copied, representation from business_api.businesses where organization_id = ${org} and id = ${business.id}`
    assert.equal(row?.copied, row?.representation)
    assert.deepEqual(await readLists(), ['Atlas Ltd'])
    assert.equal(await countCopies(), 1)
    const [unknown] = await sql`select business_api.renew_copy(${org}, 'biz_unknown') as copy`
    assert.equal(unknown?.copy, null)
  })

  test('shows clients that were inserted by SQL', async () => {
    const { id } = await platform.businesses.create(newOrganization(), { name: 'Atlas' })
    await sql`insert into business_api.businesses (organization_id, id, name) values (${org}, 'biz_by_sql', 'Byrsa')`
    await insertClient(id)
    await insertClient('biz_by_sql')
    await platform.clients.create(org, { name: 'Carthage' })
    assert.deepEqual(await readLists(), ['Atlas', 'Byrsa', 'Carthage'])
    assert.equal(await countCopies(), 1)
    await setName(id, 'Atlas Ltd')
    await setName('biz_by_sql', 'Byrsa Ltd')
    assert.deepEqual(await readLists(), ['Atlas Ltd', 'Byrsa Ltd', 'Carthage'])
    for (const businessId of [id, 'biz_by_sql']) {
      await platform.businesses.update(org, { businessId, city: 'Tunis' })
    }
    await readLists()
    assert.equal(await countCopies(), 3)
  })

  test('shows the business that SQL has given a client, also after the way back to a changed business', async () => {
    const client = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    const other = await platform.businesses.create(org, { name: 'Byrsa' })
    await giveBusiness(client.id, other.id)
    assert.deepEqual(await readLists(), ['Byrsa'])
    await platform.businesses.update(org, { businessId: client.business.id, name: 'Atlas Ltd' })
    assert.deepEqual(await readLists(), ['Byrsa'])
    await giveBusiness(client.id, client.business.id)
    assert.deepEqual(await readLists(), ['Atlas Ltd'])
    await giveBusiness(client.id, other.id)
    await renew(other.id)
    assert.deepEqual(await readLists(), ['Byrsa'])
    assert.equal(await countCopies(), 1)
  })

  test('shows the business of the organization to which SQL has moved a client', async () => {
    const client = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    const previous = org
    newOrganization()
    await sql`
      insert into business_api.businesses (organization_id, id, name) values (${org}, ${client.business.id}, 'Byrsa')`
    await sql`
      update business_api.clients set organization_id = ${org} where organization_id = ${previous} and id = ${client.id}`
    assert.deepEqual(await readLists(), ['Byrsa'])
  })

  test('shows the changes of platform.businesses.update(), and every client keeps a copy', async () => {
    const { business } = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    await platform.businesses.update(org, { businessId: business.id, name: `"Söhne" },"business":` })
    assert.deepEqual(await readLists(), [`"Söhne" },"business":`])
    await sql.begin(async (tx) => {
      const { id } = (await platform.using(tx).clients.create(org, { name: 'Byrsa' })).business
      await platform.using(tx).businesses.update(org, { businessId: id, name: 'Byrsa Ltd' })
    })
    assert.deepEqual(await readLists(), [`"Söhne" },"business":`, 'Byrsa Ltd'])
    assert.equal(await countCopies(), 2)
  })

  test('shows the present business after a change that is sent again, later than a change by SQL', async () => {
    const { business } = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    const set = { name: 'Atlas Ltd' }
    const given = {
      organizationId: org,
      recordId: business.id,
      from: null,
      set,
      events: [],
      idempotency: null,
    }
    const change = { ...given, id: ids('chg') }
    await store.businesses.change(change)
    await setName(business.id, 'Byrsa')
    await store.businesses.change(change)
    assert.deepEqual(await readLists(), ['Byrsa'])
    await setName(business.id, 'Atlas Ltd')
    assert.deepEqual(await readLists(), ['Atlas Ltd'])
  })
})

describe('an import', () => {
  const client = (id: string, businessId: string, name: string): ImportRecord => ({
    kind: 'client',
    record: {
      id,
      status: 'active',
      totalRevenue: 0,
      monthlyRevenue: 0,
      convertedAt: '2019-03-14T09:26:53.589Z',
      business: { id: businessId, name, category: null, city: null, email: null, phone: null },
    },
  })
  const business = (id: string, name: string): ImportRecord => ({
    kind: 'business',
    record: { id, name, category: null, city: null, email: null, phone: null },
  })

  test('gives clients copies, of new businesses and of businesses that exist already', async () => {
    newOrganization()
    const present = await platform.businesses.create(org, { name: 'Present' })
    await sql`insert into business_api.businesses (organization_id, id, name) values (${org}, 'biz_2', 'By SQL')`
    await platform.import(org, [
      client('cli_1', 'biz_1', 'New "one"'),
      client('cli_2', 'biz_2', 'By SQL'),
      client('cli_3', present.id, 'Present'),
      business('biz_4', 'Alone'),
    ])
    await platform.import(org, [client('cli_4', 'biz_4', 'Alone')])
    assert.equal(await countCopies(), 4)
    assert.deepEqual(await readLists(), ['Alone', 'By SQL', 'New "one"', 'Present'])
  })

  test('gives the client of a business that SQL has changed no copy until the copies are renewed', async () => {
    const { id } = await platform.businesses.create(newOrganization(), { name: 'Atlas' })
    await setName(id, 'Atlas Ltd')
    await platform.import(org, [client('cli_1', id, 'Atlas Ltd')])
    assert.deepEqual(await readLists(), ['Atlas Ltd'])
    assert.equal(await countCopies(), 0)
    await setName(id, 'Atlas')
    assert.deepEqual(await readLists(), ['Atlas'])
    await renew(id)
    assert.equal(await countCopies(), 1)
  })

  racesOf('of the client of a business', (tx, { businessId }) =>
    platform.using(tx).import(org, [client(ids('cli'), businessId, 'Atlas')]),
  )
})

describe('the conversion of a lead', () => {
  test('gives the client of a business that SQL has changed no copy', async () => {
    const { id: businessId } = await platform.businesses.create(newOrganization(), { name: 'Atlas' })
    const { id: leadId } = await platform.leads.create(org, { businessId })
    await setName(businessId, 'Atlas Ltd')
    await platform.leads.convert(org, { leadId })
    assert.deepEqual(await readLists(), ['Atlas Ltd'])
    await setName(businessId, 'Atlas')
    assert.deepEqual(await readLists(), ['Atlas'])
    await platform.businesses.update(org, { businessId, name: 'Byrsa' })
    assert.deepEqual(await readLists(), ['Byrsa'])
    assert.equal(await countCopies(), 1)
  })

  test('of a business that SQL has changed leaves no older copy behind', async () => {
    const client = await platform.clients.create(newOrganization(), { name: 'Atlas' })
    const businessId = client.business.id
    const other = await platform.businesses.create(org, { name: 'Byrsa' })
    const third = await platform.businesses.create(org, { name: 'Carthage' })
    await giveBusiness(client.id, other.id)
    await setName(businessId, 'Atlas Ltd')
    const { id: leadId } = await platform.leads.create(org, { businessId })
    const converted = await platform.leads.convert(org, { leadId })
    await giveBusiness(converted.client.id, third.id)
    await giveBusiness(client.id, businessId)
    assert.deepEqual(await readLists(), ['Atlas Ltd', 'Carthage'])
  })

  racesOf('of a business', (tx, { leadId }) => platform.using(tx).leads.convert(org, { leadId }))
})

interface Present {
  readonly businessId: string
  readonly leadId: string
}

/** Registers a test for each order of a writer of clients and a change of the business, and each isolation. */
function racesOf(name: string, write: (tx: TransactionSql, present: Present) => Promise<unknown>): void {
  for (const [changeName, change] of Object.entries(CHANGES)) {
    for (const isolation of ['read committed', 'repeatable read']) {
      for (const first of ['the writer', 'the change']) {
        test(`${name} beside ${changeName}, ${first} first, ${isolation}`, async () => {
          const { id: businessId } = await platform.businesses.create(newOrganization(), { name: 'Atlas' })
          const { id: leadId } = await platform.leads.create(org, { businessId })
          const writer = (tx: TransactionSql) => write(tx, { businessId, leadId })
          const changer = (tx: TransactionSql) => change(tx, businessId)
          const [one, two] = first === 'the writer' ? [writer, changer] : [changer, writer]
          const second = await race(isolation, one, two)
          // A transaction that cannot see the other must not write. A writer does not wait for SQL: the client gets no copy.
          const isFree = first === 'the change' && changeName === 'a change by SQL'
          assert.equal(second, isolation === 'repeatable read' && !isFree ? 'refused' : 'done')
          if (second === 'refused') await sql.begin(two)
          assert.deepEqual(await readLists(), ['Changed'])
          await assertCopies(sql)
          await platform.businesses.update(org, { businessId, name: 'Again' })
          assert.deepEqual(await readLists(), ['Again'])
          assert.equal(await countCopies(), 1)
        })
      }
    }
  }
}

/** Carries out two transactions: the second begins before the first is committed, and may wait for the commit. */
async function race(
  isolation: string,
  first: (tx: TransactionSql) => Promise<unknown>,
  second: (tx: TransactionSql) => Promise<unknown>,
): Promise<'done' | 'refused'> {
  let outcome: Promise<'done' | 'refused'> = Promise.resolve('refused')
  await sql.begin(async (tx) => {
    await first(tx)
    outcome = sql
      .begin(`isolation level ${isolation}`, async (other) => {
        await second(other)
        return 'done' as const
      })
      .catch((error) => {
        assert.ok(isSerializationFailure(error), error)
        return 'refused' as const
      }) as typeof outcome
    await Promise.race([outcome, untilWaiting(sql)])
  })
  return outcome
}

function isSerializationFailure(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === '40001') return true
  }
  return false
}

describe('a client that SQL gives the previous business again', () => {
  for (const [changeName, change] of Object.entries(CHANGES)) {
    for (const first of ['the client', 'the change']) {
      test(`shows the business, beside ${changeName}, ${first} first`, async () => {
        const { id, business } = await platform.clients.create(newOrganization(), { name: 'Atlas' })
        const other = await platform.businesses.create(org, { name: 'Byrsa' })
        await giveBusiness(id, other.id)
        const back = (tx: TransactionSql) => giveBusiness(id, business.id, tx)
        const changer = (tx: TransactionSql) => change(tx, business.id)
        const [one, two] = first === 'the client' ? [back, changer] : [changer, back]
        let done: Promise<unknown> = Promise.resolve()
        await sql.begin(async (tx) => {
          await one(tx)
          done = sql.begin(two)
          await Promise.race([done, untilWaiting(sql).catch(() => {})])
        })
        await done
        assert.deepEqual(await readLists(), ['Changed'])
      })
    }
  }
})
