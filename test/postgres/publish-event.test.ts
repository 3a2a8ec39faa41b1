import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { eventSchemas } from '../../lib/resources/event-catalogue.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { everyDelivery } from '../_deliveries.ts'

describe('business_api.publish_event()', () => {
  let database: TestDatabase
  let sql: Sql

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
  })
  after(() => database.drop())

  const publish = (organizationId: string, type: string, data: string, id: string | null = null) =>
    sql<{ id: string }[]>`
      select business_api.publish_event(${organizationId}, ${type}, ${data}::text::jsonb, ${id}::text) as id`

  const eventsOf = (organizationId: string) =>
    sql<{ id: string; type: string; body: string }[]>`
      select id, type, body from business_api.events where organization_id = ${organizationId}`

  async function addEndpoint(organizationId: string, id: string, state: string, types: string | null = null) {
    await sql`
      insert into business_api.webhook_endpoints (organization_id, id, url, types, state, created_at)
      values (${organizationId}, ${id}, 'https://x.test/', ${types}::text::text[], ${state}, now())`
  }

  test('stores the envelope and returns its id', async () => {
    const [published] = await publish('org_a', 'support.ticket_created', '{"ticketId":"t1"}')
    const [event] = await eventsOf('org_a')
    assert.match(event?.id ?? '', /^evt_[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.equal(event?.id, published?.id)
    const { createdAt, ...envelope } = JSON.parse(event?.body ?? '')
    assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(Math.abs(Date.parse(createdAt) - Date.now()) < 60_000, createdAt)
    assert.deepEqual(envelope, { id: event?.id, type: 'support.ticket_created', data: { ticketId: 't1' } })
  })

  test('knows exactly the types of the catalog', async () => {
    const [row] = await sql<{ subjects: object }[]>`select business_api.event_subjects() as subjects`
    const declared = Object.entries(eventSchemas).map(([type, { subject }]) => [type, subject])
    assert.deepEqual(row?.subjects, Object.fromEntries(declared))
  })

  test('stores the id of the record if it has 1 to 64 characters', async () => {
    const ids = { t1: 't1', 7: '7', '': null, ['é'.repeat(64)]: 'é'.repeat(64), ['x'.repeat(65)]: null }
    for (const [ticketId, subject] of Object.entries(ids)) {
      const [event] = await publish('org_subject', 'support.ticket_created', JSON.stringify({ ticketId }))
      const [row] = await sql`select subject_id from business_api.events where id = ${event?.id ?? ''}`
      assert.equal(row?.subject_id, subject)
    }
    await publish('org_subject', 'support.ticket_created', '{}')
  })

  for (const [what, data] of [
    ['a literal', `'{"ticketId":"t1"}'`],
    ['jsonb', `jsonb_build_object('ticketId', 't1')`],
    ['json', `json_build_object('ticketId', 't1')`],
    ['a row', `row_to_json(ticket)`],
    ['text', `'{"ticketId":"t1"}'::text`],
    ['varchar', `'{"ticketId":"t1"}'::varchar`],
  ] as const)
    test(`accepts ${what}, by position and by name`, async () => {
      const call = (rest: string) =>
        sql.unsafe(
          `select business_api.publish_event('org_${what}', 'support.ticket_created', ${rest}) from (select 't1' as "ticketId") as ticket`,
        )
      await call(data)
      await call(`id => 'evt_named', data => ${data}`)
      const bodies = (await eventsOf(`org_${what}`)).map(({ body }) => JSON.parse(body).data)
      assert.deepEqual(bodies, [{ ticketId: 't1' }, { ticketId: 't1' }])
    })

  test('accepts a text parameter without a type', async () => {
    const text = JSON.stringify({ ticketId: 't1' })
    await sql`select business_api.publish_event('org_untyped', 'support.ticket_created', ${text})`
    assert.equal(JSON.parse((await eventsOf('org_untyped'))[0]?.body ?? '').data.ticketId, 't1')
    await assert.rejects(
      sql`select business_api.publish_event('org_untyped', 'support.ticket_created', ${'not JSON'})`,
      { code: '22P02' },
    )
  })

  test("rejects an unknown type, data that isn't an object, and a missing organization", async () => {
    await assert.rejects(publish('org_b', 'support.ticket_creatd', '{}'), { code: '22023' })
    await assert.rejects(publish('org_b', 'support.ticket_created', '[]'), { code: '22023' })
    await assert.rejects(publish('', 'support.ticket_created', '{}'), { code: '22023' })
    assert.deepEqual([...(await eventsOf('org_b'))], [])
  })

  test("rejects an organization id that isn't 1 to 64 characters long, like the calls do", async () => {
    const id = '🏺'.repeat(64)
    await publish(id, 'project.completed', '{}')
    assert.equal((await eventsOf(id)).length, 1)
    for (const wrong of ['', `${id}x`, 'o'.repeat(65)]) {
      await assert.rejects(publish(wrong, 'project.completed', '{}'), {
        code: '22023',
        message: 'Cannot publish an event because its organization id is not 1 to 64 characters',
      })
    }
    await assert.rejects(sql`select business_api.publish_event(null, 'project.completed', '{}'::jsonb)`, {
      code: '22023',
    })
  })

  async function forget(organizationId: string): Promise<void> {
    await sql`delete from business_api.events where organization_id = ${organizationId}`
    await sql`delete from business_api.event_ids where organization_id = ${organizationId}`
  }

  test('rejects a body over the limit, reporting both sizes and what to do', async () => {
    const sizeOf = async (length: number) => {
      const data = JSON.stringify({ text: 'x'.repeat(length) })
      await publish('org_large', 'project.completed', data, 'evt_large')
      const [event] = await eventsOf('org_large')
      return event?.body.length ?? 0
    }
    const overhead = await sizeOf(0)
    await forget('org_large')
    assert.equal(await sizeOf(262_144 - overhead), 262_144)
    await forget('org_large')
    await assert.rejects(sizeOf(262_145 - overhead), {
      code: '22023',
      message:
        'Cannot publish project.completed because its body has 262145 bytes, more than the maximum of 262144',
      hint: 'Publish an id that subscribers can fetch the rest with.',
    })
    assert.deepEqual([...(await eventsOf('org_large'))], [])
  })

  test("uses the limit that migrate() has stored, like the store does, until it's changed", async () => {
    const store = createPostgresStore(database.url)
    const body = 'x'.repeat(100_000)
    const publishBoth = async (organizationId: string) => {
      const data = JSON.stringify({ text: body })
      const event = {
        id: 'evt_1',
        type: 'project.completed',
        createdAt: new Date().toISOString(),
        body,
      } as const
      const calls = [
        publish(organizationId, 'project.completed', data),
        store.events.publish(organizationId, event),
      ]
      const settled = await Promise.allSettled(calls)
      return settled.map((call) => (call.status === 'rejected' ? call.reason.code : 'published'))
    }
    try {
      await migrate(database.url, { maxEventBytes: 65_536 })
      assert.deepEqual(await publishBoth('org_limit_1'), ['22023', 'invalid_event'])
      // A later migrate() without the option doesn't change the limit.
      await migrate(sql)
      assert.deepEqual(await publishBoth('org_limit_2'), ['22023', 'invalid_event'])
      await migrate(sql, { maxEventBytes: 4_194_304 })
      assert.deepEqual(await publishBoth('org_limit_3'), ['published', 'published'])
      for (const maxEventBytes of [65_535, 4_194_305, 1e5 + 0.5]) {
        await assert.rejects(migrate(sql, { maxEventBytes }), RangeError)
      }
    } finally {
      await migrate(sql, { maxEventBytes: 262_144 })
      await store.close()
    }
  })

  test('stores a traceparent next to the envelope, and ignores one in another format', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const given = [
      traceparent,
      null,
      '',
      'nonsense',
      `${traceparent}\n`,
      `ff${traceparent.slice(2)}`,
      traceparent.toUpperCase(),
      '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
      '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
    ]
    for (const [index, value] of given.entries()) {
      await sql`
        select business_api.publish_event(
          'org_traced', 'project.completed', '{}'::jsonb, ${`evt_${index}`}, ${value}::text
        )`
    }
    const rows = await sql`
      select traceparent, body from business_api.events where organization_id = 'org_traced' order by id`
    assert.deepEqual(
      rows.map((row) => row.traceparent),
      given.map((value) => (value === traceparent ? value : null)),
    )
    assert.deepEqual(Object.keys(JSON.parse(rows[0]?.body)), ['id', 'type', 'createdAt', 'data'])
  })

  test('keeps the first event with an id and sends nothing again', async () => {
    await addEndpoint('org_c', 'we_1', 'enabled')
    await publish('org_c', 'support.ticket_created', '{"n":1}', 'evt_mine')
    await publish('org_c', 'support.ticket_created', '{"n":2}', 'evt_mine')
    const events = await eventsOf('org_c')
    assert.deepEqual(
      events.map(({ body }) => JSON.parse(body).data),
      [{ n: 1 }],
    )
    assert.equal(
      (await sql`select 1 from ${everyDelivery(sql)} as delivery where organization_id = 'org_c'`).length,
      1,
    )
  })

  test('has no effect if its transaction is rolled back', async () => {
    const undone = new Error('undone')
    const work = sql.begin(async (tx) => {
      await tx`select business_api.publish_event('org_d', 'project.completed', '{}'::jsonb)`
      throw undone
    })
    await assert.rejects(work, undone)
    assert.deepEqual([...(await eventsOf('org_d'))], [])
  })

  test("writes a delivery for each endpoint that wants the type, which is pending, or skipped if it's disabled", async () => {
    await addEndpoint('org_e', 'we_all', 'enabled')
    await addEndpoint('org_e', 'we_other', 'enabled', '{client.created}')
    await addEndpoint('org_e', 'we_paused', 'paused', '{project.completed,client.created}')
    await addEndpoint('org_e', 'we_disabled', 'disabled')
    await addEndpoint('org_f', 'we_foreign', 'enabled')
    await publish('org_e', 'project.completed', '{}')
    const deliveries = await sql`
      select endpoint_id, state from ${everyDelivery(sql)} as delivery
      where organization_id in ('org_e', 'org_f') order by endpoint_id`
    assert.deepEqual(
      deliveries.map((row) => [row.endpoint_id, row.state]),
      [
        ['we_all', 'pending'],
        ['we_disabled', 'skipped'],
        ['we_paused', 'pending'],
      ],
    )
  })
})
