import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

const ids = createIds()
const LIMIT = { perSecond: 10, burst: 1000 }
const rateLimits = { key: LIMIT, organization: LIMIT }

describe('createPostgresStore()', () => {
  test('rejects a value that is neither a pool nor a connection string without repeating it', () => {
    for (const source of ['', 'not a url', 'mysql://user:secret@localhost/app', undefined, {}]) {
      assert.throws(
        () => createPostgresStore(source as string),
        (error) => error instanceof TypeError && !error.message.includes('secret'),
      )
    }
  })

  for (const option of ['maxConnections', 'statementTimeoutMs', 'maxPending']) {
    test(`rejects a ${option} of 0 and of 1.5`, () => {
      for (const value of [0, 1.5]) {
        assert.throws(() => createPostgresStore('postgres://localhost/app', { [option]: value }), RangeError)
      }
    })
  }
})

describe('the statements', () => {
  let database: TestDatabase
  let sql: Sql
  let keyDigest: string

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
    keyDigest = await insertKey()
  })
  after(() => database.drop())

  async function insertKey(organizationId = 'org_a'): Promise<string> {
    const key = generateApiKey('bapi', 0)
    const store = createPostgresStore(sql)
    await store.apiKeys.insert({
      organizationId,
      limit: 1000,
      key: {
        id: ids('key'),
        digest: digestApiKey(key),
        name: 'Test',
        scopes: ['clients:read', 'clients:write'],
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

  const creation = (organizationId: string) => ({
    organizationId,
    idempotency: null,
    ...newClient({ name: 'Atlas' }, { ids, now: Date.now() }),
  })

  test("can't be hijacked by a function with the same name in a schema of the search path", async () => {
    await sql.unsafe(`
      create function public.json_build_object(text, text, text, json, text, json, text, boolean) returns json
        language sql as $$ select '{"outcome":"admitted","caller":{"organizationId":"org_b","keyId":"k"}}'::json $$;
      create schema evil;
      create function evil.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '2000-01-01' $$;`)
    const hostile = database.sql({ connection: { search_path: 'evil, public, pg_catalog' } })
    const admission = await createPostgresStore(hostile, { sessions: false }).apiKeys.admit({
      keyDigest,
      scope: 'clients:read',
      rateLimits,
    })
    assert.equal(admission.outcome, 'admitted')
    assert.equal(admission.caller.organizationId, 'org_a')
  })

  test("check the key of a list without limits by PostgreSQL's clock, with any search path", async () => {
    const digest = await insertKey('org_hostile')
    const revokedDigest = await insertKey('org_hostile')
    await sql`update business_api.api_keys set revoked_at = now() where digest = ${revokedDigest}`
    await sql.unsafe(`
      create function public.left(text, integer) returns text language sql as $$ select 'hostile' $$;
      create function public.string_agg(text, text) returns text language sql as $$ select 'hostile' $$;`)
    const hostile = createPostgresStore(
      database.sql({ connection: { search_path: 'evil, public, pg_catalog' } }),
      { sessions: false },
    )
    await hostile.clients.create(creation('org_hostile'))
    const request = { scope: 'clients:read', rateLimits: null } as const
    const revoked = await hostile.clients.admitAndList(
      { keyDigest: revokedDigest, ...request },
      { limit: 50 },
    )
    assert.deepEqual(revoked, { admission: { outcome: 'unauthenticated' }, page: null })
    const { page } = await hostile.clients.admitAndList({ keyDigest: digest, ...request }, { limit: 50 })
    assert.deepEqual(
      JSON.parse(String(page)).map((client: { business: { name: string } }) => client.business.name),
      ['Atlas'],
    )
  })

  test("can't be hijacked by an operator either, unless the connections don't have their own sessions", async () => {
    const digest = await insertKey('org_operators')
    await sql`update business_api.api_keys set revoked_at = now() - interval '1 hour' where digest = ${digest}`
    await sql.unsafe(`
      create schema operators;
      create function operators.holds(timestamptz, timestamptz) returns boolean language sql as $$ select true $$;
      create operator operators.> (leftarg = timestamptz, rightarg = timestamptz, function = operators.holds)`)
    const hostile = database.sql({ connection: { search_path: 'operators, public, pg_catalog' } })
    const admission = await createPostgresStore(hostile).apiKeys.admit({
      keyDigest: digest,
      scope: 'clients:read',
      rateLimits: null,
    })
    assert.deepEqual(admission, { outcome: 'unauthenticated' })
  })

  const pages = {
    'the newest records': {},
    'older records': { before: 'cli_01' },
    'changes since a time': { since: { time: '2026-03-14T09:26:53.589Z' } },
  }
  for (const [limits, [what, position]] of [null, rateLimits].flatMap((one) =>
    Object.entries(pages).map((page) => [one, page] as const),
  )) {
    test(`plan a list of ${what} once, even for small limits, ${limits ? 'with' : 'without'} rate limits`, async () => {
      const store = createPostgresStore(sql)
      await database.sql().begin(async (tx) => {
        const { clients } = store.using(tx)
        const request = { keyDigest, scope: 'clients:read', rateLimits: limits } as const
        for (let round = 0; round < 8; round++) await clients.admitAndList(request, { limit: 1, ...position })
        const plans = await tx`
          select generic_plans::int as generic, custom_plans::int as custom from pg_prepared_statements
          where statement like '%string_agg%' and statement not like '%pg_prepared%'`
        // PostgreSQL always plans the first five executions.
        assert.deepEqual([...plans], [{ generic: 3, custom: 5 }])
      })
    })
  }

  test('return the page of a list as bytes', async () => {
    const request = { keyDigest, scope: 'clients:read', rateLimits: null } as const
    const { page } = await createPostgresStore(sql).clients.admitAndList(request, { limit: 50 })
    assert.ok(page instanceof Uint8Array)
  })

  test('work with a pool that renames and transforms columns and values', async () => {
    const upper = (text: string): string => text.toUpperCase()
    const odd = database.sql({
      transform: {
        column: { to: upper, from: upper },
        value: (value: unknown) => [value],
        row: (row: object) => row,
      },
    })
    const store = createPostgresStore(odd)
    await store.clients.create(creation('org_odd'))
    const { page } = await store.clients.admitAndList(
      { keyDigest, scope: 'clients:read', rateLimits: null },
      { limit: 5 },
    )
    assert.equal(String(page), '[]')
  })

  test("a create that waits for a locked table longer than its caller doesn't write anything later", async () => {
    const store = createPostgresStore(database.sql({ fetch_types: false }), { statementTimeoutMs: 200 })
    const lock = await holdLock()
    await assert.rejects(store.clients.create(creation('org_late')), { code: 'store_unavailable' })
    // After this time, a create is no longer executed.
    await new Promise((resolve) => setTimeout(resolve, 4200))
    await lock.release()
    // Waits behind all statements that still wait for the table.
    await (await holdLock()).release()
    await store.close()
    assert.equal(
      (await sql`select 1 from business_api.businesses where organization_id = 'org_late'`).length,
      0,
    )
    assert.equal((await sql`select 1 from business_api.events where organization_id = 'org_late'`).length, 0)
  })

  test("an unsent statement isn't executed after its caller has got a response", async () => {
    const store = createPostgresStore(database.url, { maxConnections: 1, statementTimeoutMs: 300 })
    const lock = await holdLock()
    const sent = store.clients.create(creation('org_sent')).catch(() => {})
    await assert.rejects(store.clients.create(creation('org_queued')), { code: 'store_unavailable' })
    await sent
    await lock.release()
    await store.apiKeys.list('org_queued')
    assert.equal(
      (await sql`select 1 from business_api.businesses where organization_id = 'org_queued'`).length,
      0,
    )
    await store.close()
  })

  /** Locks the table of clients until released. */
  async function holdLock(): Promise<{ release(): Promise<void> }> {
    const { promise: unlocked, resolve: unlock } = deferred()
    const { promise: locked, resolve: haveLocked } = deferred()
    const transaction = sql.begin(async (tx) => {
      await tx`lock table business_api.businesses in access exclusive mode`
      haveLocked()
      await unlocked
    })
    await locked
    return {
      async release() {
        unlock()
        await transaction
      },
    }
  }
})

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
