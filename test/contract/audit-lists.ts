import assert from 'node:assert/strict'
import type { AuditAction, AuditFilter } from '../../lib/access/audit.ts'
import { newEntry } from './audit-entry.ts'
import { storeTime } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { entriesOf } from './settings-changes.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** A limit that is never reached in tests. */
export const OFTEN = { max: 1000, windowMs: 1000 } as const

/** A string that is easily corrupted unless it is handled as bytes. */
export const ODD = 'O\'Brien "🏺" \\ \n 株式会社 \u0001\u2028 {} $1'

/** Tests the order, filters and pages of audit lists. */
export function testAuditLists(harness: StoreHarness): void {
  async function recordSeveral(tenant: Tenant, count: number, subjectId: string): Promise<string[]> {
    const entries = Array.from({ length: count }, () => newEntry({ subjectId }))
    // Not in the order of their ids.
    for (const entry of entries.toReversed()) await tenant.store.audit.recordTest(tenant.id, entry, OFTEN)
    return entries.map(({ id }) => id).toReversed()
  }

  harness.test(
    'audit.list() returns the newest ids first, starting after `before`, up to `limit`',
    async () => {
      const tenant = await createTenant(harness)
      const subjectId = ids('we')
      const newestFirst = await recordSeveral(tenant, 5, subjectId)
      const list = async (limit: number, before: string | null) =>
        (await tenant.store.audit.list(tenant.id, { subjectId }, limit, before)).map(({ id }) => id)
      assert.deepEqual(await list(10, null), newestFirst)
      assert.deepEqual(await list(2, null), newestFirst.slice(0, 2))
      assert.deepEqual(await list(2, newestFirst[1] ?? ''), newestFirst.slice(2, 4))
      assert.deepEqual(await list(2, newestFirst[3] ?? ''), newestFirst.slice(4))
      assert.deepEqual(await list(2, newestFirst[4] ?? ''), [])
      assert.deepEqual(await list(2, ''), [])
    },
  )

  harness.test('audit.list() returns the entries of a subject, or all entries', async () => {
    const tenant = await createTenant(harness)
    const [one, two] = [ids('we'), ids('key')]
    const ofTwo = await recordSeveral(tenant, 2, two)
    const ofOne = await recordSeveral(tenant, 2, one)
    const idsOf = async (subjectId?: string) => (await entriesOf(tenant, subjectId)).map(({ id }) => id)
    assert.deepEqual(await idsOf(one), ofOne)
    assert.deepEqual(await idsOf(two), ofTwo)
    for (const unknown of [ids('we'), '', "' or true --"]) assert.deepEqual(await idsOf(unknown), [])
    assert.deepEqual((await idsOf()).slice(0, 4), [...ofOne, ...ofTwo])
  })

  harness.test(
    'audit.list() returns the entries of an action, of an actor, and of a period by the store’s clock',
    async () => {
      const tenant = await createTenant(harness)
      const recordOf = (actor: string | null, action: AuditAction) =>
        tenant.store.audit.recordTest(tenant.id, newEntry({ actor, action, subjectId: 'we_1' }), OFTEN)
      await recordOf(ODD, 'endpoint.paused')
      await recordOf(ODD, 'endpoint.resumed')
      await recordOf('ada', 'endpoint.paused')
      await tenant.letTimePass(3_600_000)
      await recordOf(null, 'endpoint.paused')
      const now = await storeTime(tenant)
      const ago = (ms: number) => new Date(now - ms).toISOString()
      const list = async (filter: AuditFilter) =>
        (await tenant.store.audit.list(tenant.id, { subjectId: 'we_1', ...filter }, 10, null)).map(
          ({ actor, action }) => `${actor === ODD ? 'odd' : actor} ${action.slice(9)}`,
        )
      const [old, recent] = [['ada paused', 'odd resumed', 'odd paused'], ['null paused']]
      assert.deepEqual(await list({ action: 'endpoint.paused' }), ['null paused', 'ada paused', 'odd paused'])
      assert.deepEqual(await list({ actor: ODD }), ['odd resumed', 'odd paused'])
      assert.deepEqual(await list({ actor: ODD, action: 'endpoint.paused' }), ['odd paused'])
      assert.deepEqual(await list({ actor: 'Ada' }), [])
      assert.deepEqual(await list({ since: ago(1_800_000) }), recent)
      assert.deepEqual(await list({ until: ago(1_800_000) }), old)
      assert.deepEqual(await list({ since: ago(5_400_000), until: ago(1_800_000) }), old)
      assert.deepEqual(await list({ since: ago(5_400_000), action: 'endpoint.resumed' }), ['odd resumed'])
      assert.deepEqual(await list({ until: ago(5_400_000) }), [])
      const [last] = await tenant.store.audit.list(tenant.id, {}, 1, null)
      const at = last?.at ?? ''
      assert.deepEqual(await list({ since: at }), recent)
      assert.deepEqual(await list({ until: at }), old)
    },
  )

  harness.test('audit.list() is empty for an organization in which nothing was changed', async () => {
    const id = 'org_contract_without_changes'
    assert.deepEqual(await (await harness.store(id)).audit.list(id, {}, 10, null), [])
  })
}
