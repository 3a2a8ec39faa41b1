import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'

const database = await createTestDatabase()
after(() => database.drop())

const ORGANIZATIONS = ['org_one', 'org_two', 'org_three']

test("a faulty query of the host's own gives no caller the response of another", async (t) => {
  // A single connection carries all statements of the host, in turn.
  const pool = database.sql({ max: 1, fetch_types: false })
  const store = createPostgresStore(pool, { statementTimeoutMs: 1000 })
  t.after(() => store.close())
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const keys = await Promise.all(ORGANIZATIONS.map((organization) => makeApiKey(database.url, organization)))
  const send = (key: string, name?: string): Promise<Response> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const call =
      name === undefined ? { headers } : { headers, method: 'POST', body: JSON.stringify({ name }) }
    return api(new Request('http://localhost/api/v1/clients', call))
  }
  for (const [index, { key }] of keys.entries()) {
    assert.equal((await send(key, ORGANIZATIONS[index])).status, 200)
    assert.equal((await send(key)).status, 200)
  }

  const slow = pool`select pg_sleep(0.2)`.catch(() => {})
  // A host's mistake that postgres.js notices halfway through sending.
  const faulty = pool`select ${undefined as unknown as string}::text`.catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, 20))
  const answers = await Promise.all(keys.map(({ key }) => send(key)))
  await Promise.all([slow, faulty])

  for (const [index, answer] of answers.entries()) {
    assert.equal(answer.status, 200)
    const { data } = (await answer.json()) as { data: { business: { name: string } }[] }
    assert.deepEqual(
      data.map(({ business }) => business.name),
      [ORGANIZATIONS[index]],
    )
  }
})

test("closing the store leaves the host's own pool open", async () => {
  const pool = database.sql({ max: 2 })
  const store = createPostgresStore(pool)
  await store.apiKeys.list('org_one')
  await store.close()
  assert.equal((await pool`select 1 as one`)[0]?.one, 1)
})
