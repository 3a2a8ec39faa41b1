import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ISql, Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { createStoreOn } from '../../lib/postgres/store.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { newLead } from '../../lib/resources/leads.ts'
import type { KeyReservation } from '../../lib/writes/creation.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { claim, ids, newKey } from '../contract/tenant.ts'

// Creations of an organization that arrive at the same time are written by one statement. The only visible difference
// must be speed.

let database: TestDatabase
let sql: Sql
let organizations = 0

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 3 })
})
after(() => database.drop())

interface Creator {
  readonly organizationId: string
  readonly store: PostgresStore
  create(name: string, idempotency?: KeyReservation | null, atMostMs?: number): Promise<unknown>
}

/** Opens a store with an organization that has a key. */
async function openCreator(
  t: { after(work: () => Promise<void>): void },
  store = createPostgresStore(database.url),
): Promise<Creator> {
  t.after(() => store.close())
  return addOrganization(store)
}

async function addOrganization(store: PostgresStore): Promise<Creator> {
  const organizationId = `org_${++organizations}`
  const key = newKey()
  await store.apiKeys.insert({ organizationId, limit: 10, key, entry: newEntry() })
  return {
    organizationId,
    store,
    async create(name, idempotency = null, atMostMs = 60_000) {
      const { record, events } = newClient({ name }, { ids, now: Date.now() })
      return store.clients.create({ organizationId, apiKeyId: key.id, record, events, idempotency, atMostMs })
    },
  }
}

async function clientsOf({ organizationId }: Creator): Promise<readonly { name: string; xid: string }[]> {
  const rows = await sql`
    select name, changed_xid::text as xid from business_api.businesses
    where organization_id = ${organizationId} order by client_id`
  return rows as unknown as { name: string; xid: string }[]
}

const CREATED = { outcome: 'created' }

describe("An organization's creations at the same time", () => {
  test('share a transaction, and their events are in the order of the calls', async (t) => {
    const creator = await openCreator(t)
    // Characters that JSON must escape.
    const names = ['"', '\\', '\n', '{}', ',', 'null', '\u2028', 'é 🏺', "'", '$1', '@name::text']
    assert.deepEqual(
      await Promise.all(names.map((name) => creator.create(name))),
      names.map(() => CREATED),
    )
    const clients = await clientsOf(creator)
    assert.deepEqual(
      clients.map(({ name }) => name),
      names,
    )
    assert.equal(new Set(clients.map(({ xid }) => xid)).size, 1)
    const events = await sql`
      select type, body::json -> 'data' -> 'client' -> 'business' ->> 'name' as name from business_api.events
      where organization_id = ${creator.organizationId} order by delivery_prefix`
    assert.deepEqual(
      events.map(({ type, name }) => [type, name]),
      names.flatMap((name) => [
        ['business.created', null],
        ['client.created', name],
      ]),
    )
  })

  test('share a transaction with those that arrived while two statements were running', async (t) => {
    const creator = await openCreator(t)
    await Promise.all(Array.from({ length: 100 }, (_, index) => creator.create(String(index), claim())))
    const clients = await clientsOf(creator)
    assert.equal(clients.length, 100)
    assert.equal(new Set(clients.map(({ xid }) => xid)).size, Math.ceil(100 / 16))
  })

  test("share a transaction if they're made by the host's own code", async (t) => {
    const creator = await openCreator(t)
    const { organizationId, store } = creator
    const { businesses, clients } = createPlatform(store)
    const names = Array.from({ length: 10 }, (_, index) => `Client-${index}`)
    const made = await Promise.all(
      names.map((name) => clients.create(organizationId, { name, idempotencyKey: name })),
    )
    assert.deepEqual(
      made.map(({ business }) => business.name),
      names,
    )
    const first = await clientsOf(creator)
    assert.equal(new Set(first.map(({ xid }) => xid)).size, 1)
    const repeated = await clients.create(organizationId, { name: 'Client-3', idempotencyKey: 'Client-3' })
    assert.deepEqual(repeated, made[3])
    await Promise.all(names.map((name) => businesses.create(organizationId, { name })))
    const all = await sql<{ xid: string }[]>`
      select changed_xid::text as xid from business_api.businesses where organization_id = ${organizationId} and client_id is null`
    assert.equal(all.length, 10)
    assert.equal(new Set(all.map(({ xid }) => xid)).size, 1)
  })

  test("aren't affected by a value that the database rejects", async (t) => {
    const creator = await openCreator(t)
    await sql.unsafe(
      "alter table business_api.businesses add constraint host_rule check (name <> 'Forbidden')",
    )
    t.after(async () => {
      await sql.unsafe('alter table business_api.businesses drop constraint host_rule')
    })
    const names = ['One', 'Forbidden', 'Two', 'Forbidden', 'Three']
    const results = await Promise.allSettled(names.map((name) => creator.create(name, claim())))
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason.code)),
      [CREATED, 'invalid_input', CREATED, 'invalid_input', CREATED],
    )
    assert.deepEqual(
      (await clientsOf(creator)).map(({ name }) => name),
      ['One', 'Two', 'Three'],
    )
    const [events] = await sql`
      select count(*)::int from business_api.events where organization_id = ${creator.organizationId}`
    assert.equal(events?.count, 6)
  })

  test("don't wait for an idempotency key held by another transaction", async (t) => {
    const creator = await openCreator(t)
    const held = claim()
    let waiting: Promise<unknown> | undefined
    await sql.begin(async (tx) => {
      await tx`
        insert into business_api.idempotency_keys
          (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
        values (
          ${creator.organizationId}, ${held.operation}, ${held.key}, ${held.fingerprint}, 'cli_1', 'the first', now() + interval '1 hour'
        )`
      waiting = creator.create('Held', held)
      const others = ['One', 'Two'].map((name) => creator.create(name, claim()))
      assert.deepEqual(await Promise.all(others), [CREATED, CREATED])
      await untilWaiting(sql)
      // The waiting creation doesn't delay later ones.
      assert.deepEqual(await Promise.all(['Three', 'Four'].map((name) => creator.create(name))), [
        CREATED,
        CREATED,
      ])
    })
    assert.deepEqual(await waiting, { outcome: 'replayed', reply: 'the first' })
  })

  test("aren't written once the caller has stopped waiting", async (t) => {
    const creator = await openCreator(t)
    const inTime: Promise<unknown>[] = []
    await sql.begin(async (tx) => {
      await tx`lock table business_api.businesses in share mode`
      inTime.push(creator.create('One'))
      await untilWaiting(sql, 1)
      inTime.push(creator.create('Two'))
      await untilWaiting(sql, 2)
      // Both statements are running, and this one waits for the next.
      const late = assert.rejects(creator.create('Late', null, 20), { code: 'store_unavailable' })
      assert.equal(creator.store.connectionUse?.().waiting, 1)
      await late
    })
    assert.equal(creator.store.connectionUse?.().waiting, 0)
    assert.equal(creator.store.connectionUse?.().timedOut, 1)
    assert.deepEqual(await Promise.all(inTime), [CREATED, CREATED])
    assert.deepEqual(
      (await clientsOf(creator)).map(({ name }) => name),
      ['One', 'Two'],
    )
  })

  test("aren't sent on their own if the batch has used up all their time", async (t) => {
    const server = createDatabase(database.url)
    let statements = 0
    const bytesFor: typeof server.bytesFor = (...call) => {
      statements++
      return server.bytesFor(...call)
    }
    const creator = await openCreator(t, createStoreOn({ ...server, bytesFor }))
    let patient: Promise<unknown> | undefined
    await sql.begin(async (tx) => {
      await tx`lock table business_api.businesses in share mode`
      statements = 0
      const late = assert.rejects(creator.create('Late', null, 200), { code: 'store_unavailable' })
      patient = creator.create('Patient')
      await late
    })
    assert.deepEqual(await patient, CREATED)
    assert.equal(statements, 2)
  })

  test('of leads distinguish unknown businesses from known ones', async (t) => {
    const { store, organizationId } = await openCreator(t)
    const key = newKey()
    await store.apiKeys.insert({ organizationId, limit: 10, key, entry: newEntry() })
    const { record: client } = newClient({ name: 'Atlas' }, { ids, now: Date.now() })
    await store.clients.create({ organizationId, record: client, events: [], idempotency: null })
    const create = (businessId: string) =>
      store.leads.create({
        organizationId,
        apiKeyId: key.id,
        idempotency: claim(),
        ...newLead({ businessId }, { ids, now: Date.now() }),
      })
    const known = client.business.id
    const outcomes = await Promise.all([known, ids('biz'), known, ''].map(create))
    assert.deepEqual(outcomes, [CREATED, { outcome: 'no_business' }, CREATED, { outcome: 'no_business' }])
  })

  test("of leads don't scan any table, even in a session that planned them for empty tables", async (t) => {
    const own = await createTestDatabase()
    t.after(() => own.drop())
    const server = createDatabase(own.url)
    const batches: { readonly text: string; readonly values: readonly unknown[] }[] = []
    const bytesFor: typeof server.bytesFor = (share, build, wait) => {
      const sent = (sql: ISql, answerTag: string) => {
        const unsafe = (text: string, values: unknown[], options: object) => {
          if (text.includes('json_to_recordset')) batches.push({ text, values })
          return sql.unsafe(text, values as string[], options)
        }
        return build({ unsafe } as ISql, answerTag)
      }
      return server.bytesFor(share, sent, wait)
    }
    const store = createStoreOn({ ...server, bytesFor })
    t.after(() => store.close())
    const [organizationId, key] = ['org_planned', newKey()]
    await store.apiKeys.insert({ organizationId, limit: 10, key, entry: newEntry() })
    const one = own.sql({ max: 1 })
    // Same as in the store's sessions.
    await one`set enable_seqscan = off`
    await one`vacuum analyze`
    const create = async () =>
      store.leads.create({
        ...{ organizationId, apiKeyId: key.id, idempotency: claim() },
        ...newLead({ businessId: 'biz_1' }, { ids, now: Date.now() }),
      })
    await Promise.all([create(), create(), create()])
    const [batch] = batches
    assert.ok(batch, 'no batch')
    await one.unsafe(`prepare batch as ${batch.text}`)
    const values = batch.values.map((value) => `'${String(value).replaceAll("'", "''")}'`).join(', ')
    const read = async (): Promise<number> => {
      const [row] = await one.unsafe(`explain (analyze, buffers, format json) execute batch (${values})`)
      const plan = row?.['QUERY PLAN'][0].Plan
      return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
    }
    // From the sixth time on, the session keeps one plan.
    for (let time = 0; time < 8; time++) await read()
    await one`
      insert into business_api.businesses (organization_id, id, name)
      select ${organizationId}, 'biz_none_' || n, 'Atlas' from generate_series(1, 20000) as n`
    const blocks = await read()
    assert.ok(blocks < 200, `${blocks} blocks`)
  })

  test('of other organizations are written by other transactions', async (t) => {
    const one = await openCreator(t)
    const other = await addOrganization(one.store)
    await Promise.all([one, other, one, other].map((creator) => creator.create('Atlas')))
    const written = await Promise.all([clientsOf(one), clientsOf(other)])
    const [xids, otherXids] = written.map((clients) => new Set(clients.map(({ xid }) => xid)))
    assert.deepEqual([xids?.size, otherXids?.size], [1, 1])
    assert.notDeepEqual(xids, otherXids)
  })

  test('are rejected beyond maxPending, and the others are written', async (t) => {
    const creator = await openCreator(t, createPostgresStore(database.url, { maxPending: 10 }))
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) => creator.create(String(index))),
    )
    const codes = results.map((result) => (result.status === 'rejected' ? result.reason.code : 'created'))
    assert.deepEqual(new Set(codes), new Set(['created', 'store_unavailable']))
    const created = codes.filter((code) => code === 'created').length
    assert.equal((await clientsOf(creator)).length, created)
    assert.ok(created >= 10, String(created))
  })
})
