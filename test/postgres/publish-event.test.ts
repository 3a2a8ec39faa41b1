import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { EVENT_TYPES } from '../../lib/index.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

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
    sql<{ id: string; type: string; created_at: Date; body: string }[]>`
      select id, type, created_at, body from business_api.events where organization_id = ${organizationId}`

  async function addEndpoint(organizationId: string, id: string, state: string, types: string | null = null) {
    await sql`
      insert into business_api.webhook_endpoints (organization_id, id, url, types, state, created_at)
      values (${organizationId}, ${id}, 'https://x.test/', ${types}::text::text[], ${state}, now())`
  }

  test('records the envelope whose id it returns', async () => {
    const [published] = await publish('org_a', 'support.ticket_created', '{"ticketId":"t1"}')
    const [event] = await eventsOf('org_a')
    assert.match(event?.id ?? '', /^evt_[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.equal(event?.id, published?.id)
    assert.deepEqual(JSON.parse(event?.body ?? ''), {
      id: event?.id,
      type: 'support.ticket_created',
      createdAt: event?.created_at.toISOString(),
      data: { ticketId: 't1' },
    })
  })

  test('knows exactly the types of the catalogue', async () => {
    const rows = await sql<{ type: string }[]>`select unnest(business_api.event_types()) as type`
    assert.deepEqual(rows.map(({ type }) => type).sort(), [...EVENT_TYPES].sort())
  })

  test('refuses a type that is none, data that is no object, and no organization', async () => {
    await assert.rejects(publish('org_b', 'support.ticket_creatd', '{}'), { code: '22023' })
    await assert.rejects(publish('org_b', 'support.ticket_created', '[]'), { code: '22023' })
    await assert.rejects(publish('', 'support.ticket_created', '{}'), { code: '22023' })
    assert.deepEqual([...(await eventsOf('org_b'))], [])
  })

  test('lets the first event of an id stand and sends nothing again', async () => {
    await addEndpoint('org_c', 'we_1', 'enabled')
    await publish('org_c', 'support.ticket_created', '{"n":1}', 'evt_mine')
    await publish('org_c', 'support.ticket_created', '{"n":2}', 'evt_mine')
    const events = await eventsOf('org_c')
    assert.deepEqual(
      events.map(({ body }) => JSON.parse(body).data),
      [{ n: 1 }],
    )
    assert.equal((await sql`select 1 from business_api.deliveries where organization_id = 'org_c'`).length, 1)
  })

  test('rolled back with its transaction, never happened', async () => {
    const undone = new Error('undone')
    const work = sql.begin(async (tx) => {
      await tx`select business_api.publish_event('org_d', 'project.completed', '{}'::jsonb)`
      throw undone
    })
    await assert.rejects(work, undone)
    assert.deepEqual([...(await eventsOf('org_d'))], [])
  })

  test('writes one delivery for each endpoint that wants the type: pending, or skipped where disabled', async () => {
    await addEndpoint('org_e', 'we_all', 'enabled')
    await addEndpoint('org_e', 'we_other', 'enabled', '{client.created}')
    await addEndpoint('org_e', 'we_paused', 'paused', '{project.completed,client.created}')
    await addEndpoint('org_e', 'we_disabled', 'disabled')
    await addEndpoint('org_f', 'we_foreign', 'enabled')
    await publish('org_e', 'project.completed', '{}')
    const deliveries = await sql`
      select endpoint_id, state from business_api.deliveries
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
