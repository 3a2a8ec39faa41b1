import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents } from '../_days.ts'
import { until } from '../faults/_fixture.ts'
import { assertFailed, cliOn, jsonOf, type Result, textOf } from './_cli.ts'
import { publish } from './_events.ts'
import { addEndpoint, ERASE, newOrganization } from './_settings.ts'

// The audit log, purges, status, and rules of all commands about an organization. Each test uses a new organization.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

describe("an id that the organization doesn't have", () => {
  const kinds = [
    { command: 'keys rename --name New', kind: 'key' },
    { command: 'keys revoke', kind: 'key' },
    { command: 'keys rotate', kind: 'key' },
    { command: 'endpoints test', kind: 'endpoint' },
    { command: 'endpoints rotate', kind: 'endpoint' },
    { command: 'endpoints pause', kind: 'endpoint' },
    { command: 'endpoints resume', kind: 'endpoint' },
    { command: 'endpoints enable', kind: 'endpoint' },
    { command: 'endpoints disable', kind: 'endpoint' },
    { command: 'endpoints remove', kind: 'endpoint' },
    { command: 'deliveries show', kind: 'delivery' },
    { command: 'deliveries redeliver', kind: 'delivery' },
    { command: 'deliveries cancel', kind: 'delivery' },
  ] as const
  let existing: Record<(typeof kinds)[number]['kind'], string>

  before(async () => {
    const owner = newOrganization()
    const key = jsonOf(
      await run('keys', 'create', '--organization', owner, '--scopes', 'leads:read', '--json'),
    )
    const endpoint = await addEndpoint(run, owner)
    await publish(sql, owner)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', owner, '--json'))
    existing = { key: key.id, endpoint: endpoint.id, delivery: data[0].id }
  })

  for (const { command, kind } of kinds) {
    test(`${command} fails in the same way for an unknown id and that of another organization`, async () => {
      for (const id of ['nothing_like_it', existing[kind]]) {
        const [group = '', name = '', ...flags] = command.split(' ')
        const result = await run(group, name, id, ...flags, '--organization', 'org_other', '--json')
        assertFailed(
          result,
          1,
          /^business-api-kit: Cannot [A-Za-z ]+ because the organization has no such record\n$/,
        )
        assert.equal(result.stdout, '')
      }
    })
  }

  test('changes nothing in the other organization', async () => {
    const [endpoint] =
      await sql`select state, previous_sealed_secret from business_api.webhook_endpoints where id = ${existing.endpoint}`
    assert.deepEqual({ ...endpoint }, { state: 'enabled', previous_sealed_secret: null })
    const [key] = await sql`select revoked_at from business_api.api_keys where id = ${existing.key}`
    assert.equal(key?.revoked_at, null)
  })
})

describe('audit', () => {
  test('list shows every change with its actor in pages', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org, '--actor', 'olga')
    const of = ['--organization', org]
    await publish(sql, org)
    const { data: log } = jsonOf(await run('deliveries', 'list', ...of, '--json'))
    const key = jsonOf(await run('keys', 'create', ...of, '--scopes', 'leads:read', '--json'))
    await run('keys', 'rename', key.id, ...of, '--name', 'Shop')
    const rotated = jsonOf(await run('keys', 'rotate', key.id, ...of, '--json', '--actor', 'ivan'))
    await run('keys', 'revoke', rotated.id, ...of, '--yes')
    await run('deliveries', 'cancel', log[0].id, ...of)
    await run('deliveries', 'redeliver', log[0].id, ...of)
    await run('endpoints', 'rotate', id, ...of)
    for (const move of ['pause', 'resume', 'disable --yes', 'enable', 'remove --yes'])
      await run('endpoints', ...move.split(' '), id, ...of)

    const { data, next } = jsonOf(await run('audit', 'list', ...of, '--json'))
    assert.equal(next, null)
    assert.deepEqual(
      data
        .map(({ actor, action, subjectId }: Record<string, string>) => [actor, action, subjectId])
        .reverse(),
      [
        ['olga', 'endpoint.registered', id],
        ['cli', 'api_key.created', key.id],
        ['cli', 'api_key.updated', key.id],
        ['ivan', 'api_key.rotated', key.id],
        ['cli', 'api_key.revoked', rotated.id],
        ['cli', 'delivery.cancelled', log[0].id],
        ['cli', 'delivery.redelivered', log[0].id],
        ['cli', 'endpoint.secret_rotated', id],
        ...['paused', 'resumed', 'disabled', 'enabled', 'removed'].map((done) => [
          'cli',
          `endpoint.${done}`,
          id,
        ]),
      ],
    )
    const page = await run('audit', 'list', ...of, '--limit', '2')
    assert.match(page.stdout, /^AT +ACTOR +ACTION +SUBJECT +DETAILS\n/)
    assert.match(page.stdout, new RegExp(`Z +cli +endpoint.removed +${id} +-\n`))
    assert.equal(page.stderr, `More: --before ${data[1].id}\n`)
    const ofKey = textOf(await run('audit', 'list', ...of, '--subject', key.id))
    const countOf = async (...flags: string[]) =>
      jsonOf(await run('audit', 'list', ...of, ...flags, '--json')).data.length
    assert.equal(await countOf('--action', 'endpoint.paused'), 1)
    assert.equal(await countOf('--actor', 'ivan'), 1)
    assert.deepEqual([await countOf('--since', '1h'), await countOf('--until', '1h')], [data.length, 0])
    assert.match(textOf(await run('keys', 'list', ...of)), /Shop/)
    assert.match(ofKey, new RegExp(`ivan +api_key.rotated +${key.id} +.*overlapMs: 86400000`))
    assert.match(ofKey, /cli +api_key.created .* scopes: leads:read; expiresAt: null/)
    assert.ok(!JSON.stringify(data).includes(key.key))
  })

  test('list distinguishes actions in a narrow terminal', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    for (const move of ['disable --yes', 'enable', 'remove --yes'])
      await run('endpoints', ...move.split(' '), id, '-o', org)
    const screen = textOf(await cliOn(database.url, { columns: 80 })('audit', 'list', '-o', org))
    for (const done of ['registered', 'disabled', 'enabled', 'removed']) {
      assert.match(screen, new RegExp(`endpoint\\.${done}( |$)`, 'm'))
    }
    assert.ok(screen.split('\n').every((line) => line.length <= 80))
    assert.equal(screen.split(id).length, 5)
  })

  test('includes the actor of a recovery', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    await run('endpoints', 'disable', id, '--organization', org, '--yes')
    await publish(sql, org, 3)
    await run('deliveries', 'recover', '--organization', org, '--actor', 'olga', '--yes')
    const { data } = jsonOf(await run('audit', 'list', '--organization', org, '--limit', '1', '--json'))
    assert.deepEqual(
      [data[0].actor, data[0].action, data[0].details.recovered],
      ['olga', 'deliveries.recovered', 3],
    )
  })
})

describe('purge', () => {
  test('purges until nothing old is left, and shows progress on a terminal', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    await publish(sql, org, 2)
    await run('endpoints', 'disable', id, '--organization', org, '--yes')
    await publish(sql, org, 2100)
    await ageEvents(sql, 40 * 86_400_000, sql`event.organization_id = ${org}`)
    // Autovacuum does this within a minute. The plans for empty tables are slow for full ones.
    await sql`analyze business_api.events, business_api.open_deliveries, business_api.finished_deliveries`
    assert.deepEqual(jsonOf(await run('purge', '--older-than', '50d', '--yes', '--json')), {
      events: 0,
      idempotencyKeys: 0,
    })
    const onTerminal = cliOn(database.url, { columns: 100 })
    const { stdout, stderr } = await onTerminal('purge', '--older-than', '30d', '--yes')
    // Two have yet to be sent.
    assert.equal(stdout, 'Erased 2,100 events and 0 expired idempotency keys\n')
    const frames = stderr.split(ERASE)
    assert.equal(frames[1], 'Purging … 1,000 events')
    assert.equal(frames.at(-1), '')
    const [{ left } = {}] =
      await sql`select count(*)::int as left from business_api.events where organization_id = ${org}`
    assert.equal(left, 2)
  })
})

describe('status', () => {
  test('counts the records of all organizations', async () => {
    const now = jsonOf(await run('status', '--json'))
    assert.deepEqual(Object.keys(now), [
      'schema',
      'backlog',
      'retention',
      'endpoints',
      'apiKeys',
      'recoverable',
    ])
    const [counts] = await sql`
      select (select count(*)::int from business_api.webhook_endpoints where state = 'enabled') as enabled,
             (select count(*)::int from business_api.webhook_endpoints where state in ('enabled', 'paused') and failures > 0) as failing,
             (select count(*)::int from business_api.api_keys where revoked_at is not null) as revoked,
             (select count(*)::int from business_api.finished_deliveries where state = 'skipped') as skipped`
    assert.deepEqual(
      {
        enabled: now.endpoints.enabled,
        failing: now.endpoints.failing,
        revoked: now.apiKeys.revoked,
        skipped: now.recoverable,
      },
      { ...counts },
    )
    assert.ok(now.backlog.due > 0 && now.backlog.oldestDueMs > 0)
    const text = textOf(await run('status'))
    assert.match(text, /^Schema +\d+, up to date$/m)
    assert.match(text, /^Due +[\d,]+, the oldest for \d/m)
    assert.match(text, /^Endpoints +\d+ enabled, \d+ paused, \d+ disabled, \d+ failing$/m)
    assert.match(text, /^API keys +\d+ active, 0 expired, \d+ revoked$/m)
  })
})

test('all commands have closed their connections', async () => {
  const inspector = createInspector(database.url)
  const open = async (): Promise<number> => {
    const [row] = await sql`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`
    return row?.count
  }
  await inspector.schema()
  assert.equal(await open(), 1)
  await inspector.close()
  await until('the server has ended the session', async () => (await open()) === 0, 5000)
})
