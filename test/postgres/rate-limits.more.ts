import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import type { RateLimit, RateLimits } from '../../lib/access/rate-limit.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { programFile } from '../_program.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { newKey } from '../contract/tenant.ts'
import type { Admitted, Admitting, AdmittingReport } from './_admitter.ts'

// Waiting requests of a key are checked together, by any number of processes. The only visible difference
// must be speed.

/** So slow that no token comes back during a test. */
const SLOW = 0.001
const ROOMY: RateLimit = { perSecond: SLOW, burst: 1_000_000 }

let database: TestDatabase
let sql: Sql
let keys = 0

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 2 })
})
after(() => database.drop())

function openStore(t: { after(work: () => Promise<void>): void }): PostgresStore {
  const store = createPostgresStore(database.url, { maxConnections: 4 })
  t.after(() => store.close())
  return store
}

async function makeRequest(
  store: PostgresStore,
  rateLimits: RateLimits,
  organizationHint = `org_${++keys}`,
): Promise<AdmissionRequest & { readonly organizationHint: string; readonly keyId: string }> {
  const key = newKey()
  await store.apiKeys.insert({ organizationId: organizationHint, limit: 100, key, entry: newEntry() })
  return { keyDigest: key.digest, scope: 'clients:read', rateLimits, organizationHint, keyId: key.id }
}

/** Sends requests of all keys at once and returns how many were admitted. */
async function countAdmitted(
  store: PostgresStore,
  requests: readonly AdmissionRequest[],
  count: number,
): Promise<number> {
  const outcomes = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const request = requests[index % requests.length]
      assert.ok(request)
      return (await store.apiKeys.admit(request)).outcome
    }),
  )
  return outcomes.filter((outcome) => outcome === 'admitted').length
}

describe('Several processes', () => {
  async function admitIn(
    processes: number,
    about: Omit<Admitting, 'databaseUrl'>,
  ): Promise<readonly AdmittingReport[]> {
    const admitting: Admitting = { databaseUrl: database.url, ...about }
    const children = Array.from({ length: processes }, () =>
      fork(programFile(join(import.meta.dirname, '_admitter.ts')), [JSON.stringify(admitting)]),
    )
    await Promise.all(children.map((child) => once(child, 'message')))
    const reports = children.map((child) => once(child, 'message'))
    for (const child of children) child.send('go')
    return (await Promise.all(reports)).map(([report]) => report as AdmittingReport)
  }

  async function admittedIn(
    processes: number,
    about: Omit<Admitting, 'databaseUrl'>,
  ): Promise<readonly Admitted[]> {
    return (await admitIn(processes, about)).flatMap(({ admitted }) => admitted)
  }

  test('with 10,000 requests are admitted as often as the bucket has tokens', async (t) => {
    const request = await makeRequest(openStore(t), {
      key: { perSecond: SLOW, burst: 4000 },
      organization: ROOMY,
    })
    const admitted = await admittedIn(4, { requests: [request], count: 2500, atOnce: 16 })
    assert.equal(admitted.length, 4000)
  })

  test('are never admitted more often than the bucket allows, in any period', async (t) => {
    const limit = { perSecond: 400, burst: 800 }
    const request = await makeRequest(openStore(t), { key: limit, organization: ROOMY })
    const admitted = await admittedIn(4, { requests: [request], count: 1500, atOnce: 4 })
    const byBeginning = [...admitted].sort(([one], [other]) => one - other)
    assert.ok(admitted.length >= limit.burst, `${admitted.length} admitted`)
    for (const [index, [from]] of byBeginning.entries()) {
      const ends = byBeginning
        .slice(index)
        .map(([, answeredAt]) => answeredAt)
        .sort((one, other) => one - other)
      for (const [more, until] of ends.entries()) {
        const allowed = limit.burst + (limit.perSecond * (until - from)) / 1000
        assert.ok(more + 1 <= allowed + 1e-6, `${more + 1} within ${until - from} ms`)
      }
    }
  })

  test("that check keys of the same organizations in any order don't deadlock or lose a token", async (t) => {
    const store = openStore(t)
    const [burst, atOnce] = [100_000, 48]
    const limit = { perSecond: SLOW, burst }
    const requests: AdmissionRequest[] = []
    for (let organization = 0; organization < 6; organization++) {
      for (let key = 0; key < 4; key++) {
        requests.push(
          await makeRequest(store, { key: limit, organization: limit }, `org_storm_${organization}`),
        )
      }
    }
    const reports = await admitIn(3, { requests, count: 6000, atOnce })
    assert.deepEqual(
      reports.map(({ admitted, failures }) => [admitted.length, failures]),
      Array(3).fill([6000, 0]),
    )
    const [found] = await sql`
      select
        (select deadlocks::int from pg_stat_database where datname = current_database()) as deadlocks,
        (
          select round(sum(full_at - extract(epoch from clock_timestamp())) * ${SLOW}::float8)::int
          from business_api.rate_buckets where organization_id like 'org_storm_%' and bucket = 'organization'
        ) as taken`
    assert.deepEqual({ ...found }, { deadlocks: 0, taken: 18_000 })
  })
})

test("A process that is suspended while checking requests of two organizations doesn't lock any bucket", async (t) => {
  const store = openStore(t)
  const limits = { key: ROOMY, organization: ROOMY }
  const requests = [await makeRequest(store, limits), await makeRequest(store, limits)]
  const admitting: Admitting = { databaseUrl: database.url, requests, count: 1_000_000, atOnce: 32 }
  const child = fork(programFile(join(import.meta.dirname, '_admitter.ts')), [JSON.stringify(admitting)])
  t.after(() => void child.kill('SIGKILL'))
  await once(child, 'message')
  child.send('go')
  for (let round = 0; round < 20; round++) {
    await sleep(Math.random() * 20)
    child.kill('SIGSTOP')
    // Its last statement ends even though there's no one left to read the result.
    while ((await countLocks()) > 0) await sleep(1)
    for (const request of requests) assert.equal((await store.apiKeys.admit(request)).outcome, 'admitted')
    child.kill('SIGCONT')
  }
})

/** Returns how many transactions have locked buckets or may do so. */
async function countLocks(): Promise<number> {
  const [row] = await sql`
    select count(*)::int as count from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and relation = 'business_api.rate_buckets'::regclass and mode in ('RowShareLock', 'RowExclusiveLock')`
  return row?.count
}

test('An organization’s keys share its tokens exactly', async (t) => {
  const store = openStore(t)
  const burst = 500
  const limits = { key: ROOMY, organization: { perSecond: SLOW, burst } }
  const first = await makeRequest(store, limits)
  const requests = [first, await makeRequest(store, limits, first.organizationHint)]
  assert.equal(await countAdmitted(store, requests, burst + 100), burst)
})

test('Requests that are checked together see the tokens as if they had arrived one by one', async (t) => {
  const store = openStore(t)
  const request = await makeRequest(store, { key: { perSecond: SLOW, burst: 20 }, organization: ROOMY })
  await store.apiKeys.admit(request)
  const admissions = await Promise.all(Array.from({ length: 25 }, () => store.apiKeys.admit(request)))
  const told = admissions.map((admission) => {
    assert.ok(admission.outcome !== 'unauthenticated' && admission.rateLimit)
    const { key, retryAfterMs } = admission.rateLimit
    return [admission.outcome, key.remaining, Math.ceil(retryAfterMs / 1000)]
  })
  const expected = [
    ...Array.from({ length: 19 }, (_, index) => ['admitted', 18 - index, 0]),
    ...Array.from({ length: 6 }, () => ['limited', 0, 1000]),
  ]
  assert.deepEqual(told, expected)
})

test('A revocation and a changed limit by another process apply to the next request of a busy key', async (t) => {
  const [store, other] = [openStore(t), openStore(t)]
  const request = await makeRequest(store, { key: ROOMY, organization: ROOMY })
  const { organizationHint: organizationId, keyId } = request
  assert.equal(await countAdmitted(store, [request], 200), 200)
  const rateLimit = { perSecond: SLOW, burst: 2 }
  await other.apiKeys.limitOrganization({ organizationId, rateLimit, entry: newEntry() })
  // More than two were admitted before.
  assert.equal((await store.apiKeys.admit(request)).outcome, 'limited')
  await other.apiKeys.revoke({ organizationId, keyId, entry: newEntry() })
  assert.deepEqual(await store.apiKeys.admit(request), { outcome: 'unauthenticated' })
})

test('Two APIs with different limits on the same store share the buckets', async (t) => {
  const store = openStore(t)
  const burst = 400
  const request = await makeRequest(store, { key: { perSecond: SLOW, burst }, organization: ROOMY })
  const other = {
    ...request,
    rateLimits: { key: { perSecond: SLOW, burst: burst + 1 }, organization: ROOMY },
  }
  const admitted = await countAdmitted(store, [request, other], 2 * burst)
  assert.ok(admitted === burst || admitted === burst + 1, `${admitted}`)
})

test("A flood of requests over the limit doesn't wait for locked buckets", async (t) => {
  const store = openStore(t)
  const request = await makeRequest(store, { key: { perSecond: SLOW, burst: 1 }, organization: ROOMY })
  assert.equal((await store.apiKeys.admit(request)).outcome, 'admitted')
  await sql.begin(async (tx) => {
    await tx`select 1 from business_api.rate_buckets where organization_id = ${request.organizationHint} for update`
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => store.apiKeys.admit(request)))
    assert.deepEqual([...new Set(outcomes.map(({ outcome }) => outcome))], ['limited'])
  })
})

test('A clock that was set back costs a bucket with its own limit one refill', async (t) => {
  const store = openStore(t)
  const request = await makeRequest(store, { key: ROOMY, organization: ROOMY })
  const organizationId = request.organizationHint
  await store.apiKeys.limitOrganization({
    organizationId,
    rateLimit: { perSecond: 1, burst: 3 },
    entry: newEntry(),
  })
  await store.apiKeys.admit(request)
  await sql`
    update business_api.rate_buckets set full_at = full_at + 86400
    where organization_id = ${organizationId} and bucket = 'organization'`
  const admission = await store.apiKeys.admit(request)
  assert.ok(admission.outcome === 'limited' && admission.rateLimit)
  assert.ok(admission.rateLimit.retryAfterMs <= 1000, `${admission.rateLimit.retryAfterMs}`)
  const [row] = await sql`
    select full_at - extract(epoch from clock_timestamp())::float8 as "fullIn" from business_api.rate_buckets
    where organization_id = ${organizationId} and bucket = 'organization'`
  assert.ok(row?.fullIn <= 3, `${row?.fullIn}`)
})
