import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Sql } from 'postgres'
import { createIds } from '../../lib/base/ids.ts'
import type { RecordStore } from '../../lib/business-store.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { useDatabase } from '../_use-database.ts'
import { untilWaiting } from '../_waiting.ts'
import { begin, clientsOf, createMirror, type OpenTransaction, randomOf } from './_sync.ts'

// Lists of changes while transactions are open. What commits late is listed late, but never lost.

const ids = createIds()

describe('a sync', () => {
  let sql: Sql
  let store: PostgresStore
  let organizations = 0
  useDatabase((used) => {
    ;({ sql, store } = used)
  })

  const newOrganization = (): string => `org_sync_${++organizations}`

  async function create(organizationId: string, through: RecordStore = store): Promise<string> {
    const { record } = newClient({ name: 'Atlas' }, { ids, now: Date.now() })
    await through.clients.create({ organizationId, record, events: [], idempotency: null })
    return record.id
  }

  async function change(
    organizationId: string,
    recordId: string,
    totalRevenue: number,
    through: RecordStore = store,
  ): Promise<void> {
    const set = { totalRevenue }
    const given = { organizationId, id: ids('chg'), recordId, from: null, set, events: [], idempotency: null }
    assert.equal((await through.clients.change(given)).outcome, 'changed')
  }

  test('a sync gets what a transaction wrote earlier and commits after several polls', async () => {
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    const old = await create(org)
    await mirror.sync()
    const late = await begin(sql, store)
    const inserted = await create(org, late.store)
    await change(org, old, 1, late.store)
    for (let polls = 0; polls < 3; polls++) {
      const fresh = await create(org)
      const read = await mirror.sync()
      assert.ok(read.includes(fresh))
      assert.ok(!read.includes(inserted))
    }
    await late.commit()
    const read = await mirror.sync()
    assert.ok(read.includes(inserted) && read.includes(old))
    assert.deepEqual(mirror.records, await clientsOf(sql, org))
  })

  test('a sync that starts while a transaction is open gets what it wrote, even in the middle of the first pass', async () => {
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    for (let count = 0; count < 3; count++) await create(org)
    const late = await begin(sql, store)
    const inserted = await create(org, late.store)
    await create(org)
    await mirror.readPage(1)
    await mirror.readPage(1)
    await late.commit()
    await mirror.sync(1)
    assert.ok((await mirror.sync(1)).includes(inserted))
    assert.deepEqual(mirror.records, await clientsOf(sql, org))
  })

  test('a pass from a time is followed by what was committed late with an earlier time', async () => {
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    const late = await begin(sql, store)
    const inserted = await create(org, late.store)
    await new Promise((resolve) => setTimeout(resolve, 20))
    mirror.position = { time: new Date(Date.now() - 5).toISOString() }
    await create(org)
    await mirror.sync()
    await late.commit()
    assert.ok((await mirror.sync()).includes(inserted))
  })

  test('a pass ends although records are changed in the meantime, and repeats nothing without an open transaction', async () => {
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    await mirror.sync()
    const created: string[] = []
    for (let count = 0; count < 4; count++) created.push(await create(org))
    const [first = ''] = created
    for (let pages = 0; ; pages++) {
      assert.ok(pages < 10, 'the pass does not end')
      const { isLast } = await mirror.readPage(1)
      if (isLast) break
      await change(org, first, pages + 1)
    }
    assert.ok((await mirror.sync(1)).includes(first))
    assert.deepEqual(mirror.records, await clientsOf(sql, org))
  })

  test('a sync loses nothing in 50 random orders of writes, commits, rollbacks, pages and kills', async () => {
    const reruns: number[] = []
    for (let seed = 1; seed <= 50; seed++) {
      const org = newOrganization()
      const mirror = await createMirror(store, org)
      const random = randomOf(seed)
      const known: string[] = [await create(org)]
      const open: { transaction: OpenTransaction; readonly locked: Set<string> }[] = []
      const isFree = (id: string): boolean => !open.some(({ locked }) => locked.has(id))
      let saved = mirror.position

      const end = async (): Promise<void> => {
        const [ended] = open.splice(random(open.length), 1)
        if (random(4) > 0) {
          await ended?.transaction.commit()
          known.push(...[...(ended?.locked ?? [])].filter((id) => !known.includes(id)))
        } else await ended?.transaction.rollback()
      }

      for (let step = 0; step < 30; step++) {
        const act = random(7)
        const through = open[random(open.length || 1)]
        const target = known[random(known.length)] ?? ''
        if (act === 0 && open.length < 4)
          open.push({ transaction: await begin(sql, store), locked: new Set() })
        else if (act === 1) {
          const id = await create(org, through?.transaction.store)
          if (through) through.locked.add(id)
          else known.push(id)
        } else if (act === 2 && (isFree(target) || through?.locked.has(target))) {
          await change(org, target, seed * 1000 + step, through?.transaction.store)
          through?.locked.add(target)
        } else if (act === 3 && open.length > 0) await end()
        else if (act === 4) {
          // The program only keeps the token sometimes, and is sometimes killed.
          await mirror.readPage(1 + random(3))
          if (random(3) > 0) saved = mirror.position
          if (random(4) === 0) mirror.position = saved
        } else await create(org).then((id) => known.push(id))
      }
      while (open.length > 0) await end()
      reruns.push((await mirror.sync(1 + random(5))).length)
      await mirror.sync()
      assert.deepEqual(mirror.records, await clientsOf(sql, org), `seed ${seed}`)
    }
    assert.equal(reruns.length, 50)
  })

  test('a sync pages through the records of a single transaction', async () => {
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    await mirror.sync()
    await sql`
      insert into business_api.businesses
        (organization_id, id, name, client_id, client_status, total_revenue, monthly_revenue, converted_at)
      select ${org}::text, 'biz_' || lpad(i::text, 26, '0'), 'Imported', 'cli_' || lpad(i::text, 26, '0'), 'active', 0, 0, now()
      from generate_series(1, 1000) i`
    const read = await mirror.sync(200)
    assert.equal(new Set(read).size, 1000)
    assert.equal(read.length, 1000)
    assert.deepEqual(mirror.records, await clientsOf(sql, org))
  })

  test('the token of another database, of a refilled table or of another server means everything', async (t) => {
    const { pool, store: first } = await openAnother(t)
    const org = newOrganization()
    const mirror = await createMirror(store, org)
    const other = await createMirror(first, org)
    const elsewhere = await create(org, first)
    const [one, two] = [await create(org), await create(org)]
    await mirror.sync()
    assert.deepEqual(await other.sync(), [elsewhere])
    other.position = mirror.position
    assert.deepEqual(await other.sync(), [elsewhere])

    // Like a restore into the same database.
    await pool.unsafe('vacuum full business_api.businesses')
    assert.deepEqual(await other.sync(), [elsewhere])
    assert.equal((await other.sync()).length <= 1, true)
    assert.deepEqual(mirror.records.size, 2)
    assert.deepEqual([...mirror.records.keys()], [one, two])
  })

  test('a restored database with transactions from the future lists its records once, and then their changes', async (t) => {
    const { pool, store: restored } = await openAnother(t)
    const org = newOrganization()
    const mirror = await createMirror(restored, org)
    const created = [await create(org, restored), await create(org, restored), await create(org, restored)]
    await pool`update business_api.businesses set changed_xid = '900000000000'`
    assert.deepEqual(await mirror.sync(2), created)
    for (let polls = 0; polls < 3; polls++) assert.deepEqual(await mirror.sync(2), [])
    await change(org, created[1] ?? '', 5, restored)
    assert.deepEqual((await mirror.sync(2)).slice(-1), [created[1]])
    assert.deepEqual(mirror.records, await clientsOf(pool, org))
  })

  test('businesses.update() marks a client that is being created at the same time', async () => {
    const org = newOrganization()
    const platform = createPlatform(store)
    const { id: businessId } = await platform.businesses.create(org, { name: 'Byrsa' })
    const { id: leadId } = await platform.leads.create(org, { businessId })
    let updated: Promise<unknown> = Promise.resolve()
    await sql.begin(async (tx) => {
      await platform.using(tx).leads.convert(org, { leadId })
      updated = platform.businesses.update(org, { businessId, name: 'Byrsa Ltd' })
      await untilWaiting(sql)
    })
    await updated
    const [client] = await sql`
      select changed_xid::text::bigint > xmin_of.created::text::bigint as is_marked
      from business_api.businesses client,
        (select min(changed_xid::text::bigint) as created from business_api.leads where organization_id = ${org}) xmin_of
      where client.organization_id = ${org}`
    assert.equal(client?.is_marked, true)
  })

  test('repeating endpoints.backfill() sends what a transaction older than the endpoint has committed since, and repeats nothing', async () => {
    const org = newOrganization()
    await create(org)
    const late = await begin(sql, store)
    const platform = createPlatform({ ...store, ...late.store })
    const { id } = await platform.clients.create(org, { name: 'Late' })
    const { endpoints } = createDeveloperSettings(store, { allowPlaintextSecrets: true })
    const types = ['client.created'] as const
    const endpoint = await endpoints.register(org, { url: 'https://203.0.114.1/hooks', types })
    assert.equal((await endpoints.backfill(org, endpoint.id)).events, 1)
    await late.commit()
    // The creation's event has no endpoint because the transaction published it before the endpoint existed.
    assert.equal((await endpoints.backfill(org, endpoint.id)).events, 1)
    assert.equal((await endpoints.backfill(org, endpoint.id)).events, 0)
    const sent = await sql<{ body: string }[]>`
      select event.body from business_api.open_deliveries delivery
      join business_api.events event on event.organization_id = delivery.organization_id and event.id = delivery.event_id
      where delivery.organization_id = ${org} and delivery.endpoint_id = ${endpoint.id}`
    assert.equal(sent.length, 2)
    assert.equal(sent.filter(({ body }) => JSON.parse(body).data.clientId === id).length, 1)
  })

  test('businesses.update() in a host’s transaction that is rolled back changes nothing', async () => {
    const org = newOrganization()
    const platform = createPlatform(store)
    const { business } = await platform.clients.create(org, { name: 'Atlas' })
    const mirror = await createMirror(store, org)
    await mirror.sync()
    const undone = sql.begin(async (tx) => {
      const calls = platform.using(tx)
      assert.equal(
        (await calls.businesses.update(org, { businessId: business.id, name: 'Other' })).name,
        'Other',
      )
      throw new Error('undo')
    })
    await assert.rejects(undone, /undo/)
    await mirror.sync()
    assert.deepEqual(
      [...mirror.records.values()].map((client) => client.business.name),
      ['Atlas'],
    )
    assert.deepEqual(mirror.records, await clientsOf(sql, org))
  })

  /** Opens a store on another database. */
  async function openAnother(t: TestContext): Promise<{ pool: Sql; store: PostgresStore }> {
    const own = await createTestDatabase()
    const opened = createPostgresStore(own.url)
    t.after(async () => {
      await opened.close()
      await own.drop()
    })
    return { pool: own.sql(), store: opened }
  }
})
