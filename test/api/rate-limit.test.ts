import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { BusinessApi, RateLimit } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { storeUnavailable } from '../../lib/store.ts'
import { newEntry } from '../_audit.ts'
import {
  type Answer,
  assertError,
  idOf,
  type Organization,
  request,
  seedClients,
  startPlatform,
} from './_api.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/clients'
const PLENTY: RateLimit = { perSecond: 1000, burst: 1000 }
/** So slow that no token is returned during a test. */
const SLOW = 0.001

function get(api: BusinessApi, key: string): Promise<Answer> {
  return request(api, PATH, { key })
}

async function statuses(api: BusinessApi, key: string, count: number): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) all.push((await get(api, key)).status)
  return all
}

/** Returns how many requests the two buckets would allow. */
function remaining({ headers }: Answer): [key: number, organization: number] {
  const match = /^"key";r=(\d+);t=\d+, "org";r=(\d+);t=\d+$/.exec(headers.get('ratelimit') ?? '')
  assert.ok(match, `RateLimit: ${headers.get('ratelimit')}`)
  return [Number(match[1]), Number(match[2])]
}

/** Simulates the passage of time by making an organization's buckets full that much earlier. */
async function pass({ id }: Organization, seconds: number): Promise<void> {
  await platform.sql`
    update business_api.rate_buckets set full_at = full_at - ${seconds} where organization_id = ${id}`
}

describe('The headers', () => {
  test('By default, a key has 10 requests per second with bursts of 100, and an organization 20 with bursts of 200', async () => {
    const { key } = await platform.organization()
    const answer = await get(platform.api, key)
    assert.equal(answer.headers.get('ratelimit-policy'), '"key";q=100;w=10, "org";q=200;w=10')
    assert.equal(answer.headers.get('ratelimit'), '"key";r=99;t=1, "org";r=199;t=1')
  })

  test('RateLimit counts down and tells when the buckets are full again', async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({
      rateLimit: { key: { perSecond: 0.1, burst: 5 }, organization: { perSecond: 0.05, burst: 4 } },
    })
    const answers = [await get(api, key), await get(api, key), await get(api, key)]
    for (const { headers } of answers) {
      assert.equal(headers.get('ratelimit-policy'), '"key";q=5;w=50, "org";q=4;w=80')
    }
    assert.deepEqual(
      answers.map(({ headers }) => headers.get('ratelimit')),
      ['"key";r=4;t=10, "org";r=3;t=20', '"key";r=3;t=20, "org";r=2;t=40', '"key";r=2;t=30, "org";r=1;t=60'],
    )
  })

  test("A 503 has them if the request was admitted but the records can't be read", async (t) => {
    const { key } = await platform.organization()
    const store = createPostgresStore(platform.databaseUrl, { statementTimeoutMs: 300 })
    t.after(() => store.close())
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 5 } } }, store)
    await platform.sql.begin(async (tx) => {
      await tx`lock table business_api.invoices in access exclusive mode`
      const answer = await request(api, '/api/v1/invoices', { key })
      assertError(answer, 503)
      assert.equal(remaining(answer)[0], 4)
    })
  })

  test('All authenticated responses have them and count', async () => {
    const organization = await platform.organization()
    const poor = await organization.createKey({ scopes: ['clients:write', 'leads:write'] })
    const [client] = await seedClients(platform.store, organization.id, 1)
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 50 } } })
    const { key } = poor
    const headers = { 'Idempotency-Key': 'form-1' }
    const calls: [status: number, call: () => Promise<Answer>][] = [
      [200, () => request(api, PATH, { key, json: { name: 'Atlas' }, headers })],
      [200, () => request(api, PATH, { key, json: { name: 'Atlas' }, headers })],
      [200, () => request(api, '/api/v1/leads', { key, json: { businessId: client?.businessId } })],
      [403, () => request(api, PATH, { key })],
      [403, () => request(api, PATH, { key, method: 'HEAD' })],
      [403, () => request(api, `${PATH}?limit=0`, { key })],
      [404, () => request(api, '/api/v1/leads', { key, json: { businessId: 'unknown' } })],
      [400, () => request(api, PATH, { key, body: '{' })],
      [413, () => request(api, PATH, { key, body: ' '.repeat(65_537) })],
      [415, () => request(api, PATH, { key, body: '{}', headers: { 'Content-Type': 'text/plain' } })],
      [422, () => request(api, PATH, { key, body: '{}' })],
      [422, () => request(api, PATH, { key, json: { name: 'Other' }, headers })],
      [422, () => request(api, PATH, { key, json: { name: 'Other' }, headers: { 'Idempotency-Key': '' } })],
    ]
    for (const [index, [status, call]] of calls.entries()) {
      const answer = await call()
      assert.equal(answer.status, status)
      assert.equal(answer.headers.get('ratelimit-policy'), '"key";q=50;w=50000, "org";q=200;w=10')
      assert.equal(remaining(answer)[0], 50 - index - 1)
    }
  })

  test('GET with an invalid limit has them and counts', async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 50 } } })
    const answer = await request(api, `${PATH}?limit=0`, { key })
    assertError(answer, 422)
    assert.equal(remaining(answer)[0], 49)
  })

  test('A failure after admission has them', async () => {
    const { key } = await platform.organization()
    const { clients } = platform.store
    for (const [status, error] of [
      [503, storeUnavailable('Cannot reach PostgreSQL')],
      [500, new Error('a bug')],
    ] as const) {
      const create = () => Promise.reject(error)
      const api = platform.apiWith({}, { ...platform.store, clients: { ...clients, create } })
      const answer = await request(api, PATH, { key, json: { name: 'Atlas' } })
      assertError(answer, status)
      assert.equal(answer.headers.get('ratelimit-policy'), '"key";q=100;w=10, "org";q=200;w=10')
    }
  })

  test("A 401 has no rate limit headers and doesn't take a token", async () => {
    const organization = await platform.organization()
    const api = platform.apiWith({ rateLimit: { organization: { perSecond: SLOW, burst: 2 } } })
    const revoked = await organization.createKey()
    await platform.store.apiKeys.revoke({
      organizationId: organization.id,
      keyId: revoked.id,
      entry: newEntry(),
    })
    for (const key of [revoked.key, revoked.key, revoked.key, 'bad']) {
      const answer = await get(api, key)
      assertError(answer, 401)
      assert.equal(answer.headers.get('ratelimit'), null)
      assert.equal(answer.headers.get('ratelimit-policy'), null)
    }
    assert.deepEqual(await statuses(api, organization.key, 3), [200, 200, 429])
  })

  test("A 404, 405 or OPTIONS before the key is checked has no rate limit headers and doesn't take a token", async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 1 } } })
    for (const [target, method] of [
      ['/nowhere', 'GET'],
      [PATH, 'PUT'],
      [PATH, 'OPTIONS'],
      ['/openapi.json', 'GET'],
    ] as const) {
      assert.equal((await request(api, target, { key, method })).headers.get('ratelimit'), null)
    }
    assert.equal((await get(api, key)).status, 200)
  })
})

describe('429', () => {
  test('A key is limited after its burst, in the format of section 7', async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: 0.5, burst: 3 } } })
    assert.deepEqual(await statuses(api, key, 3), [200, 200, 200])
    const answer = await get(api, key)
    assertError(answer, 429, 'Rate limit exceeded')
    assert.deepEqual(remaining(answer)[0], 0)
    assert.equal(answer.headers.get('ratelimit-policy'), '"key";q=3;w=6, "org";q=200;w=10')
    assert.equal(answer.headers.get('retry-after'), '2')
    assert.match(answer.headers.get('x-request-id') ?? '', idOf('req'))
  })

  test('By default, a key with an empty bucket has to wait one second', async () => {
    const { id, key } = await platform.organization()
    await get(platform.api, key)
    // We empty the bucket manually, because tokens are returned during 100 requests, and on a busy machine even before
    // the next one.
    let answer: Answer
    do {
      await platform.sql`
        update business_api.rate_buckets set full_at = extract(epoch from clock_timestamp())::float8 + 100.0 / 10
        where organization_id = ${id} and bucket <> 'organization'`
      answer = await get(platform.api, key)
    } while (answer.status === 200)
    assertError(answer, 429)
    assert.equal(answer.headers.get('retry-after'), '1')
  })

  test('By default, 100 concurrent requests of a key are allowed, and 200 of an organization', async () => {
    const organization = await platform.organization()
    const keys = [organization.key, (await organization.createKey()).key]
    const answers = await Promise.all(
      keys.flatMap((key) => Array.from({ length: 100 }, () => get(platform.api, key))),
    )
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
  })

  test('A request is admitted after exactly Retry-After, but not if the bucket needs longer', async () => {
    const organization = await platform.organization()
    const { key } = organization
    const api = platform.apiWith({ rateLimit: { key: { perSecond: 0.1, burst: 2 } } })
    assert.deepEqual(await statuses(api, key, 2), [200, 200])
    const answer = await get(api, key)
    const retryAfter = Number(answer.headers.get('retry-after'))
    assert.ok(retryAfter >= 9 && retryAfter <= 10)
    await pass(organization, retryAfter - 2)
    assertError(await get(api, key), 429)
    await pass(organization, 2)
    assert.deepEqual(await statuses(api, key, 2), [200, 429])
  })

  test('Retry-After is correct for the slower of the two buckets', async () => {
    const organization = await platform.organization()
    const { key } = organization
    const api = platform.apiWith({
      rateLimit: { key: { perSecond: 0.5, burst: 2 }, organization: { perSecond: 0.02, burst: 2 } },
    })
    assert.deepEqual(await statuses(api, key, 3), [200, 200, 429])
    const retryAfter = Number((await get(api, key)).headers.get('retry-after'))
    assert.ok(retryAfter >= 49 && retryAfter <= 50)
    await pass(organization, retryAfter)
    assert.equal((await get(api, key)).status, 200)
  })

  test('A request is admitted after waiting for Retry-After', async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: 1, burst: 1 } } })
    assert.deepEqual(await statuses(api, key, 1), [200])
    const answer = await get(api, key)
    assertError(answer, 429)
    assert.equal(answer.headers.get('retry-after'), '1')
    await new Promise((resolve) => setTimeout(resolve, 1000))
    assert.equal((await get(api, key)).status, 200)
  })

  test('A rejected request takes a token from neither bucket', async () => {
    const organization = await platform.organization()
    const other = await organization.createKey()
    const api = platform.apiWith({
      rateLimit: { key: { perSecond: SLOW, burst: 2 }, organization: { perSecond: SLOW, burst: 4 } },
    })
    assert.deepEqual(await statuses(api, organization.key, 6), [200, 200, 429, 429, 429, 429])
    assert.deepEqual(remaining(await get(api, organization.key)), [0, 2])
    assert.deepEqual(await statuses(api, other.key, 3), [200, 200, 429])
    await pass(organization, 1 / SLOW)
    assert.deepEqual(await statuses(api, organization.key, 2), [200, 429])
  })

  test('A rejected create writes nothing', async () => {
    const { id, key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 1 } } })
    const json = { name: 'Atlas' }
    assert.equal((await request(api, PATH, { key, json })).status, 200)
    assertError(await request(api, PATH, { key, json }), 429)
    const [written] = await platform.sql`
      select count(*)::int from business_api.businesses where organization_id = ${id}`
    assert.equal(written?.count, 1)
  })

  test('A burst of concurrent requests is allowed exactly as many as there are tokens', async () => {
    const { key } = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 7 } } })
    const answers = await Promise.all(Array.from({ length: 30 }, () => get(api, key)))
    assert.equal(answers.filter(({ status }) => status === 200).length, 7)
    assert.equal(answers.filter(({ status }) => status === 429).length, 23)
  })
})

describe('The two buckets', () => {
  test('Two keys of an organization share its bucket', async () => {
    const organization = await platform.organization()
    const other = await organization.createKey()
    const api = platform.apiWith({ rateLimit: { key: PLENTY, organization: { perSecond: SLOW, burst: 3 } } })
    assert.deepEqual(await statuses(api, organization.key, 2), [200, 200])
    assert.deepEqual(await statuses(api, other.key, 2), [200, 429])
    assertError(await get(api, organization.key), 429)
  })

  test('Two keys of an organization have a bucket each', async () => {
    const organization = await platform.organization()
    const other = await organization.createKey()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 1 }, organization: PLENTY } })
    assert.deepEqual(await statuses(api, organization.key, 2), [200, 429])
    assert.deepEqual(await statuses(api, other.key, 2), [200, 429])
  })

  test('Two organizations share nothing', async () => {
    const [ours, theirs] = [await platform.organization(), await platform.organization()]
    const api = platform.apiWith({ rateLimit: { organization: { perSecond: SLOW, burst: 1 } } })
    assert.deepEqual(await statuses(api, ours.key, 2), [200, 429])
    assert.deepEqual(await statuses(api, theirs.key, 2), [200, 429])
  })

  test("A key's own limit overrides that of the API, whether higher or lower", async () => {
    const organization = await platform.organization()
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 2 }, organization: PLENTY } })
    const less = await organization.createKey({ rateLimit: { perSecond: SLOW, burst: 1 } })
    const more = await organization.createKey({ rateLimit: { perSecond: 0.5, burst: 3 } })
    assert.deepEqual(await statuses(api, less.key, 2), [200, 429])
    assert.deepEqual(await statuses(api, more.key, 4), [200, 200, 200, 429])
    assert.deepEqual(await statuses(api, organization.key, 3), [200, 200, 429])
    const policy = (await get(api, more.key)).headers.get('ratelimit-policy')
    assert.equal(policy, '"key";q=3;w=6, "org";q=1000;w=1')
  })

  test("An organization's own limit overrides that of the API and can be removed", async () => {
    const organization = await platform.organization()
    const { id, key } = organization
    const api = platform.apiWith({
      rateLimit: { key: PLENTY, organization: { perSecond: SLOW, burst: 100 } },
    })
    await platform.store.apiKeys.limitOrganization({
      organizationId: id,
      rateLimit: { perSecond: SLOW, burst: 2 },
      entry: newEntry(),
    })
    assert.deepEqual(await statuses(api, key, 3), [200, 200, 429])
    await platform.store.apiKeys.limitOrganization({
      organizationId: id,
      rateLimit: { perSecond: 10, burst: 4 },
      entry: newEntry(),
    })
    const answer = await get(api, key)
    assert.equal(answer.headers.get('ratelimit-policy'), '"key";q=1000;w=1, "org";q=4;w=1')
    await platform.store.apiKeys.limitOrganization({ organizationId: id, rateLimit: null, entry: newEntry() })
    assert.match((await get(api, key)).headers.get('ratelimit-policy') ?? '', /"org";q=100;w=100000$/)
  })

  test('Two stores share the buckets', async () => {
    const { key } = await platform.organization()
    const rateLimit = { key: { perSecond: SLOW, burst: 4 } }
    const here = platform.apiWith({ rateLimit })
    const there = platform.apiWith({ rateLimit }, platform.anotherStore())
    const seen: number[] = []
    for (const api of [here, there, here, there, here, there]) seen.push((await get(api, key)).status)
    assert.deepEqual(seen, [200, 200, 200, 200, 429, 429])
  })
})

describe('The rateLimit option', () => {
  test('rateLimit: false allows everything and adds no headers', async () => {
    const organization = await platform.organization()
    const limited = await organization.createKey({ rateLimit: { perSecond: SLOW, burst: 1 } })
    const api = platform.apiWith({ rateLimit: false })
    assert.deepEqual([...new Set(await statuses(api, limited.key, 5))], [200])
    const answer = await get(api, organization.key)
    assert.equal(answer.headers.get('ratelimit'), null)
    assert.equal(answer.headers.get('ratelimit-policy'), null)
  })

  test("scope: 'process' uses buckets in the process, with the same headers", async () => {
    const { id, key } = await platform.organization()
    const rateLimit = { key: { perSecond: 1, burst: 2 }, scope: 'process' } as const
    const [here, there] = [platform.apiWith({ rateLimit }), platform.apiWith({ rateLimit })]
    const first = await get(here, key)
    assert.equal(first.headers.get('ratelimit-policy'), '"key";q=2;w=2, "org";q=200;w=10')
    assert.equal(remaining(first)[0], 1)
    assert.equal((await get(here, key)).status, 200)
    const denied = await get(here, key)
    assertError(denied, 429, 'Rate limit exceeded')
    assert.equal(denied.headers.get('retry-after'), '1')
    assert.equal((await get(there, key)).status, 200)
    const rows = await platform.sql`select 1 from business_api.rate_buckets where organization_id = ${id}`
    assert.equal(rows.length, 0)
    await new Promise((resolve) => setTimeout(resolve, 1000))
    assert.equal((await get(here, key)).status, 200)
  })

  test("scope: 'process' checks the key first and the scope last, and counts a forbidden request", async () => {
    const organization = await platform.organization()
    const poor = await organization.createKey({ scopes: [] })
    const api = platform.apiWith({ rateLimit: { key: { perSecond: SLOW, burst: 2 }, scope: 'process' } })
    assertError(await get(api, 'bad'), 401)
    assert.deepEqual(await statuses(api, poor.key, 3), [403, 403, 429])
    await platform.store.apiKeys.revoke({
      organizationId: organization.id,
      keyId: poor.id,
      entry: newEntry(),
    })
    assertError(await get(api, poor.key), 401)
  })

  test("scope: 'process' shares an organization's bucket between its keys", async () => {
    const organization = await platform.organization()
    const other = await organization.createKey()
    const api = platform.apiWith({
      rateLimit: { organization: { perSecond: SLOW, burst: 2 }, scope: 'process' },
    })
    assert.deepEqual(await statuses(api, organization.key, 1), [200])
    assert.deepEqual(await statuses(api, other.key, 2), [200, 429])
  })

  for (const [what, limit] of [
    ['a rate of 0', { perSecond: 0, burst: 1 }],
    ['a negative rate', { perSecond: -1, burst: 1 }],
    ['an infinite rate', { perSecond: Number.POSITIVE_INFINITY, burst: 1 }],
    ['a rate that is NaN', { perSecond: Number.NaN, burst: 1 }],
    ['a burst of 0', { perSecond: 1, burst: 0 }],
    ['half a burst', { perSecond: 1, burst: 1.5 }],
  ] as const) {
    test(`createBusinessApi() rejects ${what}`, () => {
      assert.throws(() => platform.apiWith({ rateLimit: { key: limit } }), RangeError)
      assert.throws(() => platform.apiWith({ rateLimit: { organization: limit } }), RangeError)
    })
  }
})
