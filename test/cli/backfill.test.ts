import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { startSource } from '../examples/_program.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'
import { publish } from './_events.ts'
import { DEVELOPMENT, newOrganization } from './_settings.ts'

// The command that sends an endpoint records from before it was registered.

let database: TestDatabase
let sql: Sql
let store: PostgresStore
let platform: Platform
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  store = createPostgresStore(database.url, { maxConnections: 2 })
  platform = createPlatform(store)
  run = cliOn(database.url)
})

after(async () => {
  await store.close()
  await database.drop()
})

/** Creates clients before the endpoint, which also creates a business for each. */
async function setUp(url: string, clients: number): Promise<{ org: string; id: string }> {
  const org = newOrganization()
  for (let index = 0; index < clients; index++)
    await platform.clients.create(org, { name: `Client ${index}` })
  const { id } = jsonOf(await run('endpoints', 'add', '-o', org, '--url', url, ...DEVELOPMENT, '--json'))
  return { org, id }
}

const countEvents = async (org: string): Promise<number> =>
  (await sql`select from business_api.events where organization_id = ${org} and only_endpoint_id is not null`)
    .length

describe('endpoints backfill', () => {
  test('says what it will send and sends nothing unless confirmed', async () => {
    const { org, id } = await setUp('http://127.0.0.1:4000/hook', 3)
    const backfill = ['endpoints', 'backfill', id, '-o', org]
    const says = new RegExp(
      `Sends to ${id} \\(http://127.0.0.1:4000/hook\\) at most 3 events business.created, 3 events client.created, 0 events lead.created`,
    )
    assertFailed(await run(...backfill), 2, says)
    const { dryRun, records } = jsonOf(await run(...backfill, '--dry-run', '--json'))
    assert.equal(dryRun, true)
    assert.deepEqual(records, {
      'business.created': 3,
      'client.created': 3,
      'lead.created': 0,
      'proposal.created': 0,
    })
    const env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: SECRET_KEY }
    assert.equal((await cli(backfill, { env, columns: 80, answer: 'n' })).exitCode, 1)
    assert.equal(await countEvents(org), 0)
    assert.equal((await cli(backfill, { env, columns: 80, answer: 'y' })).exitCode, 0)
    assert.equal(await countEvents(org), 6)
  })

  test('creates one event per record with one audit entry, and they are delivered after all others', async (t) => {
    const receiver = await startReceiver(t)
    const { org, id } = await setUp(`${receiver.origin}/hook`, 3)
    const backfill = ['endpoints', 'backfill', id, '-o', org, '--yes', '--actor', 'olga']
    assert.equal(textOf(await run(...backfill, '--types', 'client.created')), 'Made 3 events of 3 records\n')
    assert.deepEqual(jsonOf(await run(...backfill, '--json')), { examined: 6, events: 3, next: null })
    assert.match(
      textOf(await run(...backfill)),
      /^Made 0 events of 6 records; 6 had an event for the endpoint already\n$/,
    )
    const { data } = jsonOf(
      await run('audit', 'list', '-o', org, '--action', 'endpoint.backfilled', '--json'),
    )
    assert.deepEqual(
      data.map(({ actor, subjectId, details }: Record<string, { events: number }>) => [
        actor,
        subjectId,
        details?.events,
      ]),
      [
        ['olga', id, 3],
        ['olga', id, 3],
      ],
    )
    await publish(sql, org)
    await run('deliver', '--once', '--concurrency', '1', ...DEVELOPMENT)
    const types = receiver.requests.map(({ headers }) => headers['x-service-event-type'])
    assert.equal(types.length, 7)
    assert.equal(types[0], 'project.completed')
    const ids = receiver.requests.map(({ headers }) => String(headers['x-service-event-id']))
    assert.equal(ids.filter((eventId) => eventId.startsWith('evt_backfill_')).length, 6)
  })

  test('rejects paused and unknown endpoints', async () => {
    const { org, id } = await setUp('http://127.0.0.1:4000/hook', 1)
    await run('endpoints', 'pause', id, '-o', org)
    assertFailed(
      await run('endpoints', 'backfill', id, '-o', org, '--yes'),
      1,
      /because the endpoint is paused: enable/,
    )
    const unknown = await run('endpoints', 'backfill', 'we_unknown', '-o', org, '--dry-run')
    assertFailed(unknown, 1, /no such record/)
  })

  test('stops on a signal, and running it again does the rest', async () => {
    const { org, id } = await setUp('http://127.0.0.1:4000/hook', 0)
    await sql`
      insert into business_api.businesses (organization_id, id, name)
      select ${org}, 'biz_' || lpad(n::text, 26, '0'), 'Business ' || n from generate_series(1, 12000) as n`
    const env = { DATABASE_URL: database.url }
    const args = ['lib/cli.ts', 'endpoints', 'backfill', id, '-o', org, '--yes']
    const program = startSource(args, env)
    const deadline = Date.now() + 30_000
    while ((await countEvents(org)) === 0) assert.ok(Date.now() < deadline, 'an event within 30 s')
    program.signal('SIGINT')
    assert.equal(await program.exit, 1)
    assert.match(program.stderr(), /The backfill was stopped: run the same command to continue/)
    const made = await countEvents(org)
    assert.ok(made > 0 && made < 12_000, `${made}`)
    assert.equal(
      jsonOf(await run('endpoints', 'backfill', id, '-o', org, '--yes', '--json')).events,
      12_000 - made,
    )
    assert.equal(await countEvents(org), 12_000)
  })
})
