import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { readSettingsLines, SETTINGS_KINDS, type SettingsKind } from '../../lib/cli/settings-export.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { RECORD_KINDS, RECORD_TABLES } from '../../lib/resources/records.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from '../settings/_stores.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY } from './_cli.ts'

// The lines of an export other than records must be complete, paged and free of secrets.

const ids = createIds()
const HEADER_VALUE = 'Bearer header-value-4711'

interface Line {
  readonly kind: string
  readonly record: Readonly<Record<string, unknown>>
  readonly onlyEndpointId?: string
}

/** An organization with rows of every kind, and strings that must never be exported. */
async function fill(store: BusinessApiStore, organizationId: string) {
  const settings = createDeveloperSettings(store, {
    secretKeys: [SECRET_KEY],
    allowPrivateNetworks: true,
  })
  const { apiKeys, endpoints, rateLimits } = settings
  const { key, id: keyId } = await apiKeys.create(organizationId, {
    name: 'Shop',
    scopes: ['clients:read'],
  })
  const rotated = await apiKeys.rotate(organizationId, keyId)
  await rateLimits.set(organizationId, { perSecond: 7, burst: 70 }, { actor: 'olga' })
  const url = 'https://127.0.0.1/in'
  const kept = await endpoints.register(organizationId, { url, headers: { Authorization: HEADER_VALUE } })
  const second = await endpoints.rotateSecret(organizationId, kept.id)
  const gone = await endpoints.register(organizationId, { url: 'https://127.0.0.2/' })
  await createPlatform(store).clients.create(organizationId, { name: 'Atlas', email: 'a@atlas.example' })
  await record(store, await claim(store, organizationId, 3), 'failed')
  await endpoints.remove(organizationId, gone.id)
  await endpoints.backfill(organizationId, kept.id)
  const secrets = [key, rotated.key, kept.secret, second.secret, gone.secret, HEADER_VALUE]
  return { settings, keyId, rotated, kept, gone, secrets }
}

async function linesOf(
  store: BusinessApiStore,
  organizationId: string,
  kind: SettingsKind,
): Promise<readonly string[]> {
  const lines: string[] = []
  for await (const page of readSettingsLines(store, organizationId, kind)) lines.push(...page)
  return lines
}

function parse(lines: readonly string[]): readonly Line[] {
  return lines.map((line) => JSON.parse(line))
}

describeOnEveryStore((open) => {
  test('readSettingsLines() returns every kind as the settings show it', async () => {
    const [store, org] = [open(), newOrganization()]
    await fill(store, newOrganization())
    const { settings, keyId, rotated, kept, gone, secrets } = await fill(store, org)
    const read = async (kind: SettingsKind): Promise<readonly Line[]> =>
      parse(await linesOf(store, org, kind))

    const keys = await read('api_key')
    assert.deepEqual(
      keys.map(({ record }) => record),
      await settings.apiKeys.list(org),
    )
    assert.deepEqual(keys.map(({ record }) => record.id).toSorted(), [keyId, rotated.id].toSorted())
    assert.deepEqual(await read('rate_limit'), [{ kind: 'rate_limit', record: { perSecond: 7, burst: 70 } }])
    const [first, removed, ...others] = await read('endpoint')
    assert.deepEqual(first?.record, await settings.endpoints.get(org, kept.id))
    const { id, state, url } = removed?.record ?? {}
    assert.deepEqual([id, state, url], [gone.id, 'removed', gone.url])
    assert.deepEqual(others, [])

    const events = await read('event')
    assert.deepEqual(events.map(({ record }) => record.type).toSorted(), [
      'business.created',
      'business.created',
      'client.created',
      'client.created',
    ])
    assert.deepEqual(
      events.filter(({ onlyEndpointId }) => onlyEndpointId === kept.id).length,
      2,
      'events of the backfill',
    )
    for (const { record: envelope } of events) {
      assert.deepEqual(envelope, JSON.parse((await settings.events.get(org, String(envelope.id))).body))
    }

    const deliveries = await read('delivery')
    const listed = (await settings.deliveries.list(org)).data
    assert.equal(deliveries.length, listed.length)
    const attempted = deliveries.filter(({ record }) => record.attempts === 1)
    assert.equal(attempted.length, 3)
    for (const { record: delivery } of deliveries) {
      const { body: _, ...details } = await settings.deliveries.get(org, String(delivery.id))
      assert.deepEqual(delivery, details)
    }

    const audit = await read('audit_entry')
    assert.deepEqual(
      audit.map(({ record }) => record),
      (await settings.audit.list(org)).data,
    )
    for (const kind of SETTINGS_KINDS) {
      const text = (await linesOf(store, org, kind)).join('\n')
      for (const secret of secrets) assert.ok(!text.includes(secret), `${kind} shows a secret`)
    }
  })

  test('readSettingsLines() returns each event, delivery and entry once across many pages', async () => {
    const [store, org] = [open(), newOrganization()]
    const { settings } = await fill(store, org)
    const published: string[] = []
    for (let count = 0; count < 450; count++) published.push(await publish(store, org))
    await record(store, await claim(store, org, 250), 'delivered')
    const { id: keyId } = await settings.apiKeys.create(org, { name: 'Key 0', scopes: ['leads:read'] })
    for (let count = 1; count <= 450; count++) {
      await settings.apiKeys.update(org, keyId, { name: `Key ${count}` })
    }
    const idsOf = async (kind: SettingsKind): Promise<readonly unknown[]> =>
      parse(await linesOf(store, org, kind)).map(({ record }) => record.id)
    const events = await idsOf('event')
    assert.deepEqual(events.slice(-450), published)
    assert.equal(new Set(events).size, events.length)
    const deliveries = await idsOf('delivery')
    assert.equal(new Set(deliveries).size, deliveries.length)
    assert.equal(deliveries.length, await settings.deliveries.count(org))
    const entries = await idsOf('audit_entry')
    assert.ok(entries.length > 450, 'every entry')
    assert.equal(new Set(entries).size, entries.length)
  })

  test('readSettingsLines() keeps the digits of an event and puts it on one line', async () => {
    const [store, org] = [open(), newOrganization()]
    const [id, createdAt] = [ids('evt'), new Date().toISOString()]
    const head = `"id":"${id}","type":"client.created","createdAt":"${createdAt}"`
    const body = `{${head},\r\n "data":\n{"value":1.10,"big":12345678901234567890,"text":"a\\nb"}}`
    await store.events.publish(org, { id, type: 'client.created', body })
    const expected = `{"kind":"event","record":{${head},  "data": {"value":1.10,"big":12345678901234567890,"text":"a\\nb"}}}`
    assert.deepEqual(await linesOf(store, org, 'event'), [expected])
  })

  test('readSettingsLines() returns nothing for an unknown organization', async () => {
    for (const kind of SETTINGS_KINDS) assert.deepEqual(await linesOf(open(), newOrganization(), kind), [])
  })
})

describe('on the command line', () => {
  let database: TestDatabase
  let sql: Sql
  let store: PostgresStore
  let run: (...args: readonly string[]) => Promise<Result>

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql({ max: 1 })
    store = createPostgresStore(database.url, { maxConnections: 2 })
    run = cliOn(database.url)
  })

  after(async () => {
    await store.close()
    await database.drop()
  })

  test('export --all prints the records, then everything else, and what it has printed', async () => {
    const org = newOrganization()
    await fill(store, org)
    const { exitCode, stdout, stderr } = await run('export', '-o', org, '--all')
    assert.equal(exitCode, 0, stderr)
    const kinds = parse(stdout.trimEnd().split('\n')).map(({ kind }) => kind)
    assert.deepEqual(
      [...new Set(kinds)],
      ['business', 'client', 'api_key', 'rate_limit', 'endpoint', 'event', 'delivery', 'audit_entry'],
    )
    assert.match(
      stderr,
      /^Exported 1 business, 1 client, .*, 2 API keys, 1 rate limit, 2 endpoints, 4 events, 6 deliveries, \d audit entries\n$/,
    )
    const records = await run('export', '-o', org)
    assert.ok(stdout.startsWith(records.stdout), 'the records come first, as without --all')
    const some = await run('export', '-o', org, '--kinds', 'event,rate_limit')
    assert.equal(some.stderr, 'Exported 1 rate limit, 4 events\n')
    assertFailed(await run('export', '-o', org, '--all', '--kinds', 'event'), 2, /--all with --kinds/)
  })

  test('export --all prints no keys, digests or sealed values', async () => {
    const org = newOrganization()
    const { secrets } = await fill(store, org)
    await claim(store, org, 1)
    const [stored] = await sql<{ texts: string[] }[]>`
      select array_agg(text) as texts from (
        select digest as text from business_api.api_keys where organization_id = ${org}
        union select sealed_secret from business_api.webhook_endpoints where organization_id = ${org}
        union select previous_sealed_secret from business_api.webhook_endpoints where organization_id = ${org}
        union select sealed_headers from business_api.webhook_endpoints where organization_id = ${org}
        union select claim_token from business_api.open_deliveries where organization_id = ${org}
      ) as hidden where text is not null`
    assert.equal(stored?.texts.length, 6, 'two digests, two secrets, headers, a claim')
    const { stdout } = await run('export', '-o', org, '--all')
    for (const text of [...secrets, ...(stored?.texts ?? [])]) {
      assert.ok(!stdout.includes(text), 'a secret is in the export')
    }
    assert.doesNotMatch(stdout, /whsec_|sealed|digest|fingerprint|claim_?token/i)
  })

  test('import imports the records of export --all and counts what it skips', async () => {
    const [org, other] = [newOrganization(), newOrganization()]
    await fill(store, org)
    const { stdout: input } = await run('export', '-o', org, '--all')
    const importing = (...args: readonly string[]): Promise<Result> =>
      cli(['import', '-', '-o', other, ...args], { env: { DATABASE_URL: database.url }, input })
    const result = jsonOf(await importing('--json', '--check'))
    const { audit_entry: entries, ...leftOut } = result.leftOut
    assert.deepEqual(leftOut, { api_key: 2, rate_limit: 1, endpoint: 2, event: 4, delivery: 6 })
    assert.ok(entries > 0)
    const { exitCode, stdout, stderr } = await importing()
    assert.equal(exitCode, 0, stderr)
    assert.equal(stdout, 'Added 2 of 2 records; 0 were there already, 0 differ\n')
    assert.match(stderr, /^Left out, because only records are imported: 2 of kind api_key\n/)
    assert.equal((await run('export', '-o', other)).stdout, (await run('export', '-o', org)).stdout)
  })

  test('every table with rows of an organization is exported or known to be left out', async () => {
    const exported = [
      ...new Set(RECORD_KINDS.map((kind) => RECORD_TABLES[kind].table)),
      ...['api_keys', 'organization_limits', 'webhook_endpoints'],
      ...['events', 'open_deliveries', 'finished_deliveries', 'delivery_attempts', 'audit_entries'],
    ]
    const leftOut = [
      // Stored responses, which repeat records and are kept for a week.
      'idempotency_keys',
      // Derived from the numbers of invoices and proposals.
      'number_series',
      // Counters and locks.
      'endpoint_activity',
      'endpoint_rates',
      'rate_buckets',
      'settings_turns',
      // Only kept for a week and without personal data.
      'api_requests',
      // Ids of events created by the host, which are part of the events.
      'event_ids',
      // Rows that are not about one organization.
      'event_days',
      'event_limits',
      'event_types',
      'installation',
      'purge_progress',
      'shard_places',
    ]
    const tables = await sql<{ name: string }[]>`
      select relname as name from pg_attribute join pg_class on pg_class.oid = attrelid
      where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not relispartition
        and attname = 'organization_id'`
    assert.deepEqual(
      tables.map(({ name }) => name).toSorted(),
      [...exported, ...leftOut].toSorted(),
      'a new table needs a kind in lib/cli/settings-export.ts, or a reason to be left out here and in lib/cli/README.md',
    )
  })
})
