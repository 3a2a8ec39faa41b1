import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Unread } from '../../lib/delivery/poller.ts'
import { createReader, type Reader } from '../../lib/delivery/reader.ts'
import type { ClaimedDelivery, ClaimRef } from '../../lib/webhooks/claims.ts'
import { TARGET } from './_queues.ts'

// The reader with a fake store. All times are from a clock controlled by the test.

const LEASE_MS = 30_000

describe('createReader()', () => {
  let now = 0
  /** What the store does for a delivery. By default, reading succeeds immediately. */
  let behaviour = new Map<string, () => Promise<readonly ClaimedDelivery[]>>()
  let asked: string[] = []
  let told: string[] = []
  let pauses: number[] = []
  let reader: Reader
  /** The last delivery that was read. */
  let read: unknown

  beforeEach(() => {
    now = 1_000_000
    mock.method(performance, 'now', () => now)
    behaviour = new Map()
    asked = []
    told = []
    pauses = []
    const store = {
      async read([claim]: readonly ClaimRef[]) {
        assert.ok(claim)
        asked.push(claim.deliveryId)
        return behaviour.get(claim.deliveryId)?.() ?? [deliveryOf(claim)]
      },
    }
    reader = createReader(store, LEASE_MS, {
      onRead(delivery) {
        told.push(`read ${delivery.id}`)
        read = delivery
      },
      onGone: ({ id }) => told.push(`gone ${id}`),
      onFailed: ({ id }, _error, pauseMs) => {
        told.push(`failed ${id}`)
        pauses.push(pauseMs)
      },
      onUnreadable: ({ id }) => told.push(`unreadable ${id}`),
    })
  })
  afterEach(() => mock.restoreAll())

  function deliveryOf({ organizationId, deliveryId }: ClaimRef): ClaimedDelivery {
    return {
      organizationId,
      id: deliveryId,
      endpointId: 'we_1',
      eventId: 'evt_1',
      type: 'project.completed',
      body: '{}',
      ...TARGET,
      attempt: 1,
    }
  }

  function unread(id: string, organizationId = `org_${id}`): Unread {
    return { organizationId, id, endpointId: 'we_1', token: 'token', leaseEndsAt: now + LEASE_MS }
  }

  const fails = (id: string) => behaviour.set(id, () => Promise.reject(new TypeError('a bug')))

  /** Claims and reads each delivery once. */
  async function readAll(...ids: readonly string[]): Promise<void> {
    for (const id of ids) reader.add(unread(id))
    await turn()
    now += 10
  }

  test('reads four deliveries at once, one per organization', async () => {
    const answers: (() => void)[] = []
    for (const id of ['a1', 'a2', 'b', 'c', 'd', 'e']) {
      behaviour.set(id, () => new Promise((resolve) => answers.push(() => resolve([]))))
      reader.add(unread(id, id.startsWith('a') ? 'org_a' : `org_${id}`))
    }
    await turn()
    assert.deepEqual([asked, reader.pending], [['a1', 'b', 'c', 'd'], 6])
    answers[0]?.()
    await turn()
    assert.deepEqual(asked.slice(4), ['a2'])
    answers[1]?.()
    await turn()
    assert.deepEqual([asked.slice(5), reader.pending], [['e'], 4])
  })

  test('returns a delivery with its lease, and releases one that is missing or has less than half of its lease left', async () => {
    const given = unread('a')
    await readAllOf(given)
    const { token, leaseEndsAt } = given
    const claim = { organizationId: 'org_a', deliveryId: 'a', token }
    assert.deepEqual(read, { ...deliveryOf(claim), token, leaseEndsAt })

    told = []
    behaviour.set('b', async () => [])
    await readAllOf(unread('b'), { ...unread('c'), leaseEndsAt: now + LEASE_MS / 2 - 1 })
    assert.deepEqual(
      [told.toSorted(), asked],
      [
        ['gone b', 'gone c'],
        ['a', 'b'],
      ],
    )
  })

  async function readAllOf(...given: readonly Unread[]): Promise<void> {
    for (const one of given) reader.add(one)
    await turn()
  }

  test('only fails a delivery that has failed three times while others could be read', async () => {
    fails('poison')
    // No other delivery was read before the first failure, so it doesn't count.
    await readAll('poison')
    assert.equal(reader.hasSuspects, true)
    for (const other of ['a', 'b']) {
      await readAll(other)
      await readAll('poison')
    }
    assert.deepEqual(told, ['failed poison', 'read a', 'failed poison', 'read b', 'failed poison'])
    await readAll('c')
    await readAll('poison')
    assert.deepEqual(told.slice(5), ['read c', 'unreadable poison'])
    assert.deepEqual([reader.hasSuspects, reader.pending], [false, 0])
  })

  test('fails nothing while no other delivery is read, and tries less and less often', async () => {
    fails('alone')
    for (let number = 0; number < 8; number++) await readAll('alone')
    assert.deepEqual(told, Array(8).fill('failed alone'))
    assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
    assert.equal(reader.hasSuspects, true)
  })

  test('fails nothing while the database is slow, because slow reads prove nothing', async () => {
    fails('a')
    for (let number = 0; number < 5; number++) {
      behaviour.set('slow', async () => {
        now += 1000
        return [deliveryOf({ organizationId: 'org_slow', deliveryId: 'slow', token: 'token' })]
      })
      await readAll('slow', 'a')
    }
    assert.equal(told.includes('unreadable a'), false)
  })

  test('forgets all failures if a suspect can be read after all, because it was the database', async () => {
    fails('a')
    fails('b')
    for (let number = 0; number < 2; number++) await readAll('ok', 'a', 'b')
    assert.equal(
      told.some((line) => line.startsWith('unreadable')),
      false,
    )
    behaviour.delete('a')
    await readAll('ok', 'a')
    assert.equal(reader.hasSuspects, false)
    for (let number = 0; number < 2; number++) await readAll('ok', 'b')
    assert.equal(
      told.some((line) => line.startsWith('unreadable')),
      false,
    )
  })

  test('counts deliveries as read if the claim included the content', async () => {
    fails('poison')
    await readAll('poison')
    for (let number = 0; number < 3; number++) {
      reader.noteRead(5)
      await readAll('poison')
    }
    assert.equal(told.at(-1), 'unreadable poison')
  })

  test('treats a store that never responds as a failure at the end of the lease', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    try {
      behaviour.set('silent', () => new Promise(() => {}))
      reader.add(unread('silent'))
      await turn()
      mock.timers.tick(LEASE_MS)
      await turn()
      assert.deepEqual(told, ['failed silent'])
    } finally {
      mock.timers.reset()
    }
  })

  test('drain() removes everything, and results of reads in progress are dropped', async () => {
    let answer = (): void => {}
    behaviour.set('a', () => new Promise((resolve) => (answer = () => resolve([]))))
    for (const id of ['a', 'b', 'c']) reader.add(unread(id, 'org_1'))
    await turn()
    assert.deepEqual(
      reader.drain().map(({ id }) => id),
      ['a', 'b', 'c'],
    )
    answer()
    await turn()
    assert.deepEqual([told, reader.pending], [[], 0])
  })
})
