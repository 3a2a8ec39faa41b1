import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { type BusinessApiOptions, type BusinessApiStore, createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { newEntry } from '../_audit.ts'
import { startProxy } from '../faults/_proxy.ts'
import {
  type Answer,
  assertError,
  type Organization,
  rawHead,
  recordOf,
  seedClients,
  serve,
  startPlatform,
} from './_api.ts'

// A create whose body has come with its head is judged and written by one statement, if no token of the rate limits is needed
// or one is at hand.
// That must show in nothing but speed.

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/clients'
const ROOMY = { perSecond: 0.01, burst: 1_000_000 }
const ROOMY_LIMITS = { key: ROOMY, organization: ROOMY }

/** An API on a port, with a connection, whose statements are counted. */
async function startCounted(
  t: TestContext,
  {
    rateLimit = false,
    replace = (store) => store,
    databaseUrl = platform.databaseUrl,
    sessions = true,
    ...hooks
  }: Pick<BusinessApiOptions, 'rateLimit' | 'onRequest' | 'onResponse'> & {
    replace?: (store: BusinessApiStore) => BusinessApiStore
    databaseUrl?: string
    sessions?: boolean
  } = {},
) {
  const proxy = await startProxy(databaseUrl)
  const store = createPostgresStore(proxy.url, { maxConnections: 1, sessions })
  const server = await serve(createBusinessApi(replace(store), { ...hooks, rateLimit, logger: false }))
  const connection = await server.connect()
  t.after(async () => {
    await server.close()
    await store.close()
    await proxy.close()
  })

  async function post(
    key: string,
    body: string,
    { path = PATH, headers = [] as string[], pauseMs = 0 } = {},
  ): Promise<Answer> {
    const head = rawHead(
      `POST ${path}`,
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      ...headers,
    )
    if (pauseMs === 0) connection.send(head + body)
    else {
      connection.send(head)
      await sleep(pauseMs)
      connection.send(body)
    }
    return connection.answer()
  }

  /** Uses a key for so long that tokens are at hand. Returns the number of uses. */
  async function useSteadily({ id, key }: Organization): Promise<number> {
    const keyDigest = digestApiKey(key)
    const request = {
      keyDigest,
      scope: 'clients:read',
      rateLimits: ROOMY_LIMITS,
      organizationHint: id,
    } as const
    const until = performance.now() + 600
    let uses = 0
    const callers = Array.from({ length: 16 }, async () => {
      for (; performance.now() < until; uses++) await store.apiKeys.admit(request)
    })
    await Promise.all(callers)
    return uses
  }

  /** Returns the number of statements of a create. What else the store sends meanwhile can only add to it. */
  async function countStatements(send: (index: number) => Promise<Answer>): Promise<number> {
    const counts: number[] = []
    // With the first one the process gets to know the key.
    for (let index = 0; index < 6; index++) {
      const before = proxy.sent
      recordOf(await send(index))
      counts.push(proxy.sent - before)
    }
    return Math.min(...counts)
  }

  return { post, useSteadily, countStatements, store }
}

const BODY = JSON.stringify({ name: 'Atlas Ceramics' })

describe('A create is one statement', () => {
  test('if its body has come and no token is needed', async (t) => {
    const organization = await platform.organization()
    const { key } = organization
    const { post, countStatements } = await startCounted(t)
    assert.equal(await countStatements(() => post(key, BODY)), 1)
  })

  test('with an idempotency key too, also for a lead', async (t) => {
    const organization = await platform.organization()
    const { key } = organization
    const [client] = await seedClients(platform.store, organization.id, 1)
    const { post, countStatements } = await startCounted(t)
    const body = JSON.stringify({ businessId: client?.businessId })
    const count = await countStatements((index) =>
      post(key, body, { path: '/api/v1/leads', headers: [`Idempotency-Key: lead-${index}`] }),
    )
    assert.equal(count, 1)
  })

  test('with rate limits too, while a token is at hand', async (t) => {
    const organization = await platform.organization()
    const { post, useSteadily, countStatements } = await startCounted(t, { rateLimit: ROOMY_LIMITS })
    const count = await countStatements(async (index) => {
      // With the first one the process gets to know the key.
      if (index === 1) await useSteadily(organization)
      return post(organization.key, BODY, { headers: [`Idempotency-Key: limited-${index}`] })
    })
    assert.equal(count, 1)
  })

  test('with a limit of many digits too, where the database shows few of them', async (t) => {
    const few = await startPlatform()
    t.after(() => few.close())
    await few.sql.unsafe(
      `alter database ${new URL(few.databaseUrl).pathname.slice(1)} set extra_float_digits = 0`,
    )
    const organization = await few.organization()
    await few.store.apiKeys.limitOrganization({
      organizationId: organization.id,
      rateLimit: { perSecond: 1 / 60, burst: 1_000_000 },
      entry: newEntry(),
    })
    const { post, useSteadily, countStatements } = await startCounted(t, {
      rateLimit: ROOMY_LIMITS,
      databaseUrl: few.databaseUrl,
      sessions: false,
    })
    const count = await countStatements(async (index) => {
      // With the first one the process gets to know the key.
      if (index === 1) await useSteadily(organization)
      return post(organization.key, BODY, { headers: [`Idempotency-Key: digits-${index}`] })
    })
    assert.equal(count, 1)
  })

  test('and two if its body comes later', async (t) => {
    const organization = await platform.organization()
    const { key } = organization
    const { post, countStatements } = await startCounted(t)
    assert.equal(await countStatements(() => post(key, BODY, { pauseMs: 300 })), 2)
  })

  test('and two with onRequest, for a refusal in between; one with onResponse', async (t) => {
    const organization = await platform.organization()
    const { key } = organization
    const asked = await startCounted(t, { onRequest: () => undefined })
    assert.equal(await asked.countStatements(() => asked.post(key, BODY)), 2)
    let answers = 0
    const told = await startCounted(t, { onResponse: () => void answers++ })
    assert.equal(await told.countStatements(() => told.post(key, BODY)), 1)
    assert.ok(answers >= 5)
  })

  for (const [what, replace] of [
    [
      'create()',
      (store) => ({
        ...store,
        clients: { ...store.clients, create: (given) => store.clients.create(given) },
      }),
    ],
    [
      'admit()',
      (store) => ({ ...store, apiKeys: { ...store.apiKeys, admit: (given) => store.apiKeys.admit(given) } }),
    ],
  ] as const satisfies readonly (readonly [string, (store: BusinessApiStore) => BusinessApiStore])[]) {
    test(`and two if the host has put its own ${what} in between`, async (t) => {
      const organization = await platform.organization()
      const { key } = organization
      const { post, countStatements } = await startCounted(t, { replace })
      assert.equal(await countStatements(() => post(key, BODY)), 2)
    })
  }
})

describe('A create in one statement', () => {
  async function startUsed(t: TestContext, organization: Organization) {
    const started = await startCounted(t, { rateLimit: ROOMY_LIMITS })
    // The process gets to know the key.
    assertError(await started.post(organization.key, '{}'), 422)
    const uses = 1 + (await started.useSteadily(organization))
    return { ...started, uses }
  }

  async function countClients({ id }: Organization): Promise<number> {
    const [row] = await platform.sql`
      select count(*)::int as count from business_api.businesses where organization_id = ${id}`
    return row?.count
  }

  /** The tokens that have left the bucket of the organization. */
  async function spentTokens({ id }: Organization): Promise<number> {
    const [row] = await platform.sql`
      select (full_at - extract(epoch from clock_timestamp())) * ${ROOMY.perSecond}::float8 as spent
      from business_api.rate_buckets where organization_id = ${id} and bucket = 'organization'`
    return Math.round(row?.spent)
  }

  test('writes nothing for a key revoked a moment ago, and does not judge the body', async (t) => {
    const organization = await platform.organization()
    const { id, key, keyId } = organization
    const { post } = await startUsed(t, organization)
    await platform.store.apiKeys.revoke({ organizationId: id, keyId, entry: newEntry() })
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: revoked'] }), 401)
    assertError(await post(key, '{'), 401)
    assert.equal(await countClients(organization), 0)
  })

  test('writes nothing once a limit was lowered below what is spent', async (t) => {
    const organization = await platform.organization()
    const { id, key } = organization
    const { post } = await startUsed(t, organization)
    const lowered = { perSecond: 0.01, burst: 1 }
    await platform.store.apiKeys.limitOrganization({
      organizationId: id,
      rateLimit: lowered,
      entry: newEntry(),
    })
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: lowered'] }), 429)
    assert.equal(await countClients(organization), 0)
  })

  test('writes once when the organization gets a limit of its own with the values of the default', async (t) => {
    const organization = await platform.organization()
    const { post } = await startUsed(t, organization)
    await platform.store.apiKeys.limitOrganization({
      organizationId: organization.id,
      rateLimit: ROOMY,
      entry: newEntry(),
    })
    recordOf(await post(organization.key, BODY, { headers: ['Idempotency-Key: own'] }))
    assert.equal(await countClients(organization), 1)
  })

  test('gives its token back while another request holds the idempotency key', async (t) => {
    const organization = await platform.organization()
    const { id, key } = organization
    const { post, uses } = await startUsed(t, organization)
    const holder = await platform.sql.reserve()
    t.after(() => holder.release())
    await holder`begin`
    await holder`
      insert into business_api.idempotency_keys
        (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
      values (${id}, 'POST /api/v1/clients', 'held', 'other', 'other', '{}', now() + interval '1 day')`
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: held'] }), 409)
    await holder`rollback`
    // Tokens at hand come back within a quarter of a second.
    while ((await spentTokens(organization)) !== uses + 1) await sleep(20)
    assert.equal(await countClients(organization), 0)
  })

  test('writes nothing and replays nothing for a key without the scope', async (t) => {
    const organization = await platform.organization()
    const { post } = await startUsed(t, organization)
    const headers = ['Idempotency-Key: scope']
    recordOf(await post(organization.key, BODY, { headers }))
    await platform.sql`update business_api.api_keys set scopes = '{clients:read}' where id = ${organization.keyId}`
    assertError(await post(organization.key, BODY, { headers }), 403)
    assertError(await post(organization.key, BODY), 403)
    assert.equal(await countClients(organization), 1)
  })

  test('replays, refuses another body under the key, and tells what is left of the limits', async (t) => {
    const organization = await platform.organization()
    const { post } = await startUsed(t, organization)
    const headers = ['Idempotency-Key: again']
    const first = await post(organization.key, BODY, { headers })
    const second = await post(organization.key, BODY, { headers })
    assert.equal(second.text, first.text)
    assert.equal(second.headers.get('idempotent-replayed'), 'true')
    assertError(await post(organization.key, JSON.stringify({ name: 'Other' }), { headers }), 422)
    for (const { headers: told } of [first, second])
      assert.match(told.get('ratelimit') ?? '', /^"key";r=\d+;t=\d+/)
    assert.equal(await countClients(organization), 1)
  })

  test('answers 404 for a business of another organization', async (t) => {
    const organization = await platform.organization()
    const other = await platform.organization()
    const [client] = await seedClients(platform.store, other.id, 1)
    const { post } = await startUsed(t, organization)
    const body = JSON.stringify({ businessId: client?.businessId })
    assertError(await post(organization.key, body, { path: '/api/v1/leads' }), 404)
  })
})
