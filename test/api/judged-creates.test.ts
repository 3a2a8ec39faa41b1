import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BusinessApiStore, createBusinessApi } from '../../lib/index.ts'
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

// A create is admitted by one statement, along with all other waiting requests, and written by another, which checks
// the key once more.

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/clients'
const BODY = JSON.stringify({ name: 'Atlas Ceramics' })
const ROOMY = { perSecond: 0.01, burst: 1_000_000 }
const LIMITS = { key: ROOMY, organization: ROOMY }

/** Starts an API on a port with a connection whose statements are counted. */
async function startCounted(
  t: TestContext,
  replace: (store: BusinessApiStore) => BusinessApiStore = (store) => store,
) {
  const proxy = await startProxy(platform.databaseUrl)
  const store = createPostgresStore(proxy.url, { maxConnections: 1 })
  const server = await serve(createBusinessApi(replace(store), { rateLimit: LIMITS, logger: false }))
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

  /** Returns the number of statements for a create. Other statements sent by the store can only increase it. */
  async function countStatements(send: (index: number) => Promise<Answer>): Promise<number> {
    const counts: number[] = []
    // With the first request, the process learns about the key.
    for (let index = 0; index < 6; index++) {
      const before = proxy.sent
      recordOf(await send(index))
      counts.push(proxy.sent - before)
    }
    return Math.min(...counts)
  }

  return { post, countStatements }
}

async function countClients({ id }: Organization): Promise<number> {
  const [row] = await platform.sql`
    select count(*)::int as count from business_api.businesses where organization_id = ${id}`
  return row?.count
}

test('A create takes two statements, even with an idempotency key or if its body arrives late', async (t) => {
  const { key } = await platform.organization()
  const { post, countStatements } = await startCounted(t)
  assert.equal(await countStatements(() => post(key, BODY)), 2)
  assert.equal(
    await countStatements((index) => post(key, BODY, { headers: [`Idempotency-Key: ${index}`] })),
    2,
  )
  assert.equal(await countStatements(() => post(key, BODY, { pauseMs: 100 })), 2)
})

describe("Between a create's admission and its statement", () => {
  /** A store that runs a function before a client is created. */
  const meddling =
    (meddle: () => Promise<unknown>) =>
    (store: BusinessApiStore): BusinessApiStore => ({
      ...store,
      clients: {
        ...store.clients,
        async create(creation) {
          await meddle()
          return store.clients.create(creation)
        },
      },
    })

  test('a revoked key writes nothing and is rejected with 401', async (t) => {
    const organization = await platform.organization()
    const { id, key, keyId } = organization
    const revoke = () => platform.store.apiKeys.revoke({ organizationId: id, keyId, entry: newEntry() })
    const { post } = await startCounted(t, meddling(revoke))
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: revoked'] }), 401)
    assert.equal(await countClients(organization), 0)
  })

  test("a deleted organization can't create records", async (t) => {
    const organization = await platform.organization()
    const { id, key } = organization
    const remove = async (): Promise<void> => {
      let after: string | null = null
      do
        after = (await platform.store.organizations.deletePart({ organizationId: id, limit: 100, after }))
          .next
      while (after !== null)
    }
    const { post } = await startCounted(t, meddling(remove))
    assertError(await post(key, BODY), 401)
    assertError(await post(key, BODY), 401)
    assert.equal(await countClients(organization), 0)
  })
})

describe('A create', () => {
  test("writes nothing for a key that was just revoked, and doesn't check the body", async (t) => {
    const organization = await platform.organization()
    const { id, key, keyId } = organization
    const { post } = await startCounted(t)
    assertError(await post(key, '{}'), 422)
    await platform.store.apiKeys.revoke({ organizationId: id, keyId, entry: newEntry() })
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: revoked'] }), 401)
    assertError(await post(key, '{'), 401)
    assert.equal(await countClients(organization), 0)
  })

  test('writes nothing if the limit was lowered below what is already used', async (t) => {
    const organization = await platform.organization()
    const { id: organizationId, key } = organization
    const { post } = await startCounted(t)
    for (let request = 0; request < 3; request++) assertError(await post(key, '{}'), 422)
    const rateLimit = { perSecond: 0.01, burst: 1 }
    await platform.store.apiKeys.limitOrganization({ organizationId, rateLimit, entry: newEntry() })
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: lowered'] }), 429)
    assert.equal(await countClients(organization), 0)
  })

  test('writes nothing while another request holds the idempotency key', async (t) => {
    const organization = await platform.organization()
    const { id, key } = organization
    const { post } = await startCounted(t)
    const holder = await platform.sql.reserve()
    t.after(() => holder.release())
    await holder`begin`
    await holder`
      insert into business_api.idempotency_keys
        (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
      values (${id}, 'POST /api/v1/clients', 'held', 'other', 'other', '{}', now() + interval '1 day')`
    assertError(await post(key, BODY, { headers: ['Idempotency-Key: held'] }), 409)
    await holder`rollback`
    assert.equal(await countClients(organization), 0)
  })

  test('writes nothing and replays nothing for a key without the scope', async (t) => {
    const organization = await platform.organization()
    const { post } = await startCounted(t)
    const headers = ['Idempotency-Key: scope']
    recordOf(await post(organization.key, BODY, { headers }))
    await platform.sql`update business_api.api_keys set scopes = '{clients:read}' where id = ${organization.keyId}`
    assertError(await post(organization.key, BODY, { headers }), 403)
    assertError(await post(organization.key, BODY), 403)
    assert.equal(await countClients(organization), 1)
  })

  test('replays, rejects a different body with the same key, and returns the remaining limits', async (t) => {
    const organization = await platform.organization()
    const { post } = await startCounted(t)
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

  test('responds with 404 for a business of another organization', async (t) => {
    const organization = await platform.organization()
    const other = await platform.organization()
    const [client] = await seedClients(platform.store, other.id, 1)
    const { post } = await startCounted(t)
    const body = JSON.stringify({ businessId: client?.businessId })
    assertError(await post(organization.key, body, { path: '/api/v1/leads' }), 404)
  })
})
