import assert from 'node:assert/strict'
import { newEntry } from './audit-entry.ts'
import {
  type ClaimedSome,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  lastFailure,
  onlyDelivery,
  refOf,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

/** Tests claims limited by the size of the bodies, and reading deliveries one by one. */
export function testClaimBytes(harness: StoreHarness): void {
  testBound(harness)
  testUnread(harness)
  testRepeats(harness)
}

/** Returns a body of exactly this many bytes, in two-byte characters plus a one-byte character if the number is odd. */
function bodyOf(bytes: number): string {
  return 'é'.repeat(Math.floor(bytes / 2)) + 'x'.repeat(bytes % 2)
}

async function publishSizes(tenant: Tenant, sizes: readonly number[]): Promise<string[]> {
  const ids: string[] = []
  for (const bytes of sizes) {
    const body = bodyOf(bytes)
    assert.equal(Buffer.byteLength(body), bytes)
    ids.push((await tenant.publish({ body })).id)
  }
  return ids
}

function unreadOf({ unread, token }: ClaimedSome) {
  return unread.map(({ organizationId, id }) => ({ organizationId, deliveryId: id, token }))
}

function testBound(harness: StoreHarness): void {
  harness.test(
    'claim() returns bodies of up to maxBytes in total, and the rest with the next claims',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const ids = await publishSizes(tenant, [400, 500, 101, 1000, 1, 998, 2])
      const claims: string[][] = []
      for (let number = 0; number < 4; number++) {
        const { eventIds, unread } = await claim(tenant, { maxBytes: 1000 })
        assert.deepEqual(unread, [])
        claims.push([...eventIds])
      }
      assert.deepEqual(claims, [ids.slice(0, 2), ids.slice(2, 3), ids.slice(3, 4), ids.slice(4, 6)])
      assert.deepEqual((await claim(tenant)).eventIds, ids.slice(6))
      for (const { attempts } of await deliveriesOf(tenant)) assert.equal(attempts, 1)
    },
  )

  harness.test(
    'if a claim reaches maxBytes, the next one starts with the endpoint that was left out',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoints = [
        await tenant.insertEndpoint({ types: ['client.created'] }),
        await tenant.insertEndpoint({ types: ['lead.created'] }),
        await tenant.insertEndpoint({ types: ['invoice.paid'] }),
      ].map(({ id }) => ({ organizationId: tenant.id, endpointId: id }))
      const small = await tenant.publish({ type: 'client.created', body: bodyOf(600) })
      const medium = await tenant.publish({ type: 'lead.created', body: bodyOf(500) })
      const last = await tenant.publish({ type: 'invoice.paid', body: bodyOf(500) })
      const first = await claim(tenant, { maxBytes: 1000 })
      assert.deepEqual([first.eventIds, first.next], [[small.id], endpoints[0]])
      const second = await claim(tenant, { maxBytes: 1000, cursor: first.next })
      assert.deepEqual(second.eventIds, [medium.id, last.id])
    },
  )
}

function testUnread(harness: StoreHarness): void {
  harness.test(
    'a delivery larger than maxBytes is claimed without its contents and does not count towards the limit',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      const [first = '', large = '', last = ''] = await publishSizes(tenant, [500, 1001, 500])
      const claims = await claim(tenant, { maxBytes: 1000 })
      assert.deepEqual(claims.eventIds, [first, last])
      const [unread, ...others] = claims.unread
      assert.deepEqual([unread?.organizationId, unread?.endpointId, others], [tenant.id, endpointId, []])
      const delivery = (await deliveriesOf(tenant)).find(({ eventId }) => eventId === large)
      assert.deepEqual([delivery?.id, delivery?.state, delivery?.attempts], [unread?.id, 'sending', 1])
      const [read] = await tenant.store.deliveries.read(unreadOf(claims))
      assert.deepEqual([read?.eventId, read?.body], [large, bodyOf(1001)])
    },
  )

  harness.test(
    'with maxBytes 0 all deliveries are claimed without contents, and read() returns the same as claim()',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint({ headerNames: ['X-Team'], sealedHeaders: 'plain.{"X-Team":"billing"}' })
      const ids = await publishSizes(tenant, [10, 20, 30])
      const whole = await claim(tenant)
      await tenant.store.deliveries.release(whole.deliveries.map(refOf))
      const claims = await claim(tenant, { maxBytes: 0 })
      assert.deepEqual([claims.deliveries, claims.unread.length], [[], 3])
      const read = await tenant.secondStore.deliveries.read(unreadOf(claims))
      assert.deepEqual(
        read.map(({ eventId }) => eventId),
        ids,
      )
      assert.deepEqual(
        read,
        whole.deliveries.map(({ token: _, ...delivery }) => delivery),
      )
      const results = unreadOf(claims).map((ref, index) => ({
        ...success(whole.deliveries[index] ?? assert.fail()),
        ...ref,
      }))
      await writeResults(tenant, results)
      assert.deepEqual(
        new Set((await deliveriesOf(tenant)).map(({ state }) => state)),
        new Set(['delivered']),
      )
    },
  )

  harness.test('read() omits inactive claims and deliveries of removed endpoints', async (t) => {
    const tenant = await createPublisher(harness, t)
    const removed = await tenant.insertEndpoint({ types: ['lead.created'] })
    await tenant.insertEndpoint({ types: ['client.created'] })
    await tenant.publish({ type: 'lead.created' })
    await tenant.publish({ type: 'client.created' })
    const claims = await claim(tenant, { maxBytes: 0 })
    const refs = unreadOf(claims)
    assert.equal((await tenant.store.deliveries.read(refs)).length, 2)
    await tenant.store.endpoints.remove({
      organizationId: tenant.id,
      endpointId: removed.id,
      entry: newEntry(),
    })
    const [left, ...others] = await tenant.store.deliveries.read(refs)
    assert.deepEqual([left?.type, others], ['client.created', []])
    const foreign = refs.map((ref) => ({ ...ref, token: 'another' }))
    assert.deepEqual(await tenant.store.deliveries.read(foreign), [])
    const stranger = refs.map((ref) => ({ ...ref, organizationId: 'org_nobody' }))
    assert.deepEqual(await tenant.store.deliveries.read(stranger), [])
    await tenant.store.deliveries.release(refs)
    assert.deepEqual(await tenant.store.deliveries.read(refs), [])
    assert.deepEqual(await tenant.store.deliveries.read([]), [])
  })

  harness.test(
    'an attempt that failed because its delivery is unreadable does not count against the endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      const delivery = await claimOne(tenant)
      const result = lastFailure(delivery, { status: null, error: 'unreadable', reason: 'unreadable' })
      assert.deepEqual(await writeResults(tenant, [result], { failures: 1, failingMs: 0 }), [])
      const { state, reason, attemptLog } = await onlyDelivery(tenant)
      assert.deepEqual([state, reason, attemptLog[0]?.error], ['failed', 'unreadable', 'unreadable'])
      assert.deepEqual((await tenant.store.endpoints.list(tenant.id))[0]?.failures, 0)
    },
  )
}

function testRepeats(harness: StoreHarness): void {
  async function loseThree(t: ContractTest) {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const ids = await publishSizes(tenant, [400, 500, 600])
    const lost = await claim(tenant)
    assert.deepEqual(lost.eventIds, ids)
    return { tenant, ids, repeat: { token: lost.token, isRepeat: true } }
  }

  harness.test(
    'claim() repeated with fewer bytes returns the deliveries that fit and releases the rest, uncounted',
    async (t) => {
      const { tenant, ids, repeat } = await loseThree(t)
      const again = await claim(tenant, { ...repeat, maxBytes: 950 })
      // Deliveries of the same millisecond may have been created in any order.
      const bytes = again.deliveries.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0)
      assert.ok(again.deliveries.length >= 1 && again.deliveries.length < 3 && bytes <= 950, `${bytes} bytes`)
      const rest = ids.filter((id) => !again.eventIds.includes(id))
      const states = (await deliveriesOf(tenant)).map(({ eventId, state, attempts }) => [
        eventId,
        state,
        attempts,
      ])
      for (const [eventId, state, attempts] of states) {
        assert.deepEqual([state, attempts], rest.includes(String(eventId)) ? ['pending', 0] : ['sending', 1])
      }
      assert.deepEqual((await claim(tenant)).eventIds.toSorted(), rest.toSorted())
    },
  )

  harness.test(
    'claim() repeated with maxBytes 0 returns the claimed deliveries again, without contents',
    async (t) => {
      const { tenant, ids, repeat } = await loseThree(t)
      const again = await claim(tenant, { ...repeat, maxBytes: 0 })
      assert.deepEqual(again.deliveries, [])
      const read = await tenant.store.deliveries.read(unreadOf(again))
      assert.deepEqual(read.map(({ eventId }) => eventId).toSorted(), ids.toSorted())
      assert.deepEqual((await claim(tenant)).eventIds, [])
    },
  )
}
