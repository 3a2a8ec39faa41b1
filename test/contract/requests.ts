import assert from 'node:assert/strict'
import type { LoggedRequest, RequestFilter, RequestRecord } from '../../lib/access/request-log.ts'
import { newEntry } from './audit-entry.ts'
import { storeTime } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

const DAY_MS = 86_400_000

/** Tests the log of API requests. */
export function testRequests(harness: StoreHarness): void {
  harness.test(
    'requests.write() logs a request, which get() finds by its id in its organization only',
    async () => {
      const [tenant, other] = [await createTenant(harness), await createTenant(harness)]
      const record = await recordOf(tenant, { error: 'no "\\ 🏺', status: 422, isReplay: true })
      await tenant.store.requests.write([record])
      const { keyDigest: _, organizationId: __, ...logged } = record
      const { id: keyId, name: keyName } = tenant.key
      assert.deepEqual(await tenant.store.requests.get(tenant.id, record.id), { ...logged, keyId, keyName })
      assert.equal(await other.store.requests.get(other.id, record.id), null)
      assert.deepEqual(await list(other), [])
      for (const unknown of ['req_unknown', '', "' or true --"]) {
        assert.equal(await tenant.store.requests.get(tenant.id, unknown), null)
      }
    },
  )

  harness.test(
    'requests.write() finds the organization by the key, even a revoked one, and drops unknown keys',
    async () => {
      const tenant = await createTenant(harness)
      const revoked = await tenant.insertKey()
      await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
      const unknown = await recordOf(tenant, { keyDigest: 'unknown', organizationId: null })
      const anothers = await recordOf(tenant, { organizationId: 'org_another' })
      const refused = await recordOf(tenant, { keyDigest: revoked.digest, organizationId: null, status: 401 })
      await tenant.store.requests.write([unknown, anothers, refused])
      assert.deepEqual(
        (await list(tenant)).map(({ id, keyId, status }) => [id, keyId, status]),
        [[refused.id, revoked.id, 401]],
      )
    },
  )

  harness.test('requests.write() of the same requests again changes nothing', async () => {
    const tenant = await createTenant(harness)
    const record = await recordOf(tenant)
    await tenant.store.requests.write([record, record])
    await tenant.store.requests.write([{ ...record, status: 500 }])
    assert.deepEqual(
      (await list(tenant)).map(({ status }) => status),
      [200],
    )
  })

  harness.test('requests.list() returns the newest first, page by page', async () => {
    const tenant = await createTenant(harness)
    const now = await storeTime(tenant)
    const records = await Promise.all(
      // Some have the same millisecond and are sorted by id.
      [0, 1, 1, 2, 3].map((second) =>
        recordOf(tenant, { at: new Date(now - 1000 * (9 - second)).toISOString() }),
      ),
    )
    await tenant.store.requests.write(records.toReversed())
    const newestFirst = records.map(({ id }) => id).toReversed()
    for (const limit of [1, 2, 4, 5, 200]) {
      const pages: string[][] = []
      let before: string | null = null
      do {
        const { data, next } = await tenant.store.requests.list(tenant.id, {}, limit, before)
        pages.push(data.map(({ id }) => id))
        before = next
      } while (before !== null)
      assert.deepEqual(pages.flat(), newestFirst)
      assert.equal(pages.length, Math.ceil(5 / limit))
    }
    assert.deepEqual(await tenant.store.requests.list(tenant.id, {}, 5, 'req_unknown'), {
      data: [],
      next: null,
    })
  })

  harness.test('requests.list() filters by key, status class and time, separately and combined', async () => {
    const tenant = await createTenant(harness)
    const other = await tenant.insertKey()
    const now = await storeTime(tenant)
    const at = (hours: number): string => new Date(now - hours * 3_600_000).toISOString()
    const records = [
      await recordOf(tenant, { at: at(4), status: 200 }),
      await recordOf(tenant, { at: at(3), status: 429 }),
      await recordOf(tenant, { at: at(2), status: 503, keyDigest: other.digest }),
      await recordOf(tenant, { at: at(1), status: 404, keyDigest: other.digest }),
    ]
    await tenant.store.requests.write(records)
    const places = async (filter: RequestFilter) =>
      (await list(tenant, filter)).map((one) => records.findIndex(({ id }) => id === one.id))
    assert.deepEqual(await places({}), [3, 2, 1, 0])
    assert.deepEqual(await places({ keyId: other.id }), [3, 2])
    assert.deepEqual(await places({ status: '4xx' }), [3, 1])
    assert.deepEqual(await places({ status: '5xx', keyId: tenant.key.id }), [])
    assert.deepEqual(await places({ since: at(3), until: at(1) }), [2, 1])
    assert.deepEqual(await places({ since: at(3), status: '2xx' }), [])
    assert.deepEqual(await places({ keyId: 'key_unknown' }), [])
  })

  harness.test('a request from a clock that is ahead has the time of the store', async () => {
    const tenant = await createTenant(harness)
    const record = await recordOf(tenant, {
      at: new Date((await storeTime(tenant)) + 40 * DAY_MS).toISOString(),
    })
    await tenant.store.requests.write([record])
    const [logged] = await list(tenant)
    assert.ok(Math.abs(Date.parse(logged?.at ?? '') - (await storeTime(tenant))) < 60_000, logged?.at)
  })

  harness.test('deleting an organization deletes its requests', async () => {
    const tenant = await createTenant(harness)
    const [one, other] = [await recordOf(tenant), await recordOf(tenant)]
    await tenant.store.requests.write([one, other])
    let after: string | null = null
    do {
      const part = await tenant.store.organizations.deletePart({ organizationId: tenant.id, limit: 1, after })
      after = part.next
    } while (after !== null)
    assert.deepEqual(await list(tenant), [])
    await tenant.store.requests.write([await recordOf(tenant)])
    assert.deepEqual(await list(tenant), [])
  })
}

async function list(tenant: Tenant, filter: RequestFilter = {}): Promise<readonly LoggedRequest[]> {
  return (await tenant.store.requests.list(tenant.id, filter, 100, null)).data
}

async function recordOf(tenant: Tenant, changes: Partial<RequestRecord> = {}): Promise<RequestRecord> {
  return {
    id: ids('req'),
    at: new Date((await storeTime(tenant)) - 1000).toISOString(),
    keyDigest: tenant.key.digest,
    organizationId: tenant.id,
    method: 'GET',
    route: '/api/v1/clients',
    path: '/platform/api/v1/clients',
    status: 200,
    durationMs: 1.5,
    error: null,
    isReplay: false,
    ...changes,
  }
}
