import assert from 'node:assert/strict'
import { beforeEach, describe, mock, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createPoller } from '../../lib/delivery/poller.ts'
import type { ClaimedDelivery, ClaimRequest, EndpointRef } from '../../lib/webhooks/claims.ts'
import { TARGET } from './_queues.ts'

// The claims of a loop on a fake store with the test's results.

const LEASE_MS = 30_000
const BYTES = 1000
const CAPACITY = { endpoint: 4, organization: 64, endpoints: {}, organizations: {} }

function at(endpointId: string, organizationId = 'org_1'): EndpointRef {
  return { organizationId, endpointId }
}

function deliveryOf(endpoint: EndpointRef): ClaimedDelivery {
  return {
    ...endpoint,
    id: 'dlv_1',
    eventId: 'evt_1',
    type: 'project.completed',
    body: '{}',
    ...TARGET,
    attempt: 1,
  }
}

describe('createPoller()', () => {
  let requests: ClaimRequest[] = []
  let next: EndpointRef | null = null
  let served: readonly EndpointRef[] = []
  let isAway = false
  let poller = createPoller({ claim }, { leaseMs: LEASE_MS, maxAttempts: 5 })

  async function claim(request: ClaimRequest) {
    requests.push(request)
    if (isAway) throw storeUnavailable('The store is away')
    return {
      deliveries: served.map(deliveryOf),
      unread: [],
      failed: [],
      storeTime: 1_773_480_413_000,
      next,
      nextInMs: null,
    }
  }

  beforeEach(() => {
    requests = []
    next = null
    served = []
    isAway = false
    poller = createPoller({ claim }, { leaseMs: LEASE_MS, maxAttempts: 5 })
  })

  /** A claim that ends at a position. Returns whether there is more. */
  async function claimUpTo(
    place: EndpointRef | null,
    ...endpoints: readonly EndpointRef[]
  ): Promise<boolean> {
    next = place
    served = endpoints
    return (await poller.claim(10, BYTES, CAPACITY)).hasMore
  }

  test('requests the given deliveries with a new token each time that no other process uses', async () => {
    const other = createPoller({ claim }, { leaseMs: LEASE_MS, maxAttempts: 5 })
    for (const one of [poller, poller, other]) await one.claim(7, BYTES, CAPACITY)
    assert.equal(new Set(requests.map(({ token }) => token)).size, 3)
    const [{ token, scanLimit, ...request } = { token: '', scanLimit: 0 }] = requests
    assert.ok(token.length > 16 && scanLimit > 0)
    assert.deepEqual(request, {
      isRepeat: false,
      limit: 7,
      maxBytes: BYTES,
      capacity: CAPACITY,
      cursor: null,
      leaseMs: LEASE_MS,
      maxAttempts: 5,
    })
  })

  test("determines the store's clock relative to its own", async () => {
    const { storeOffset } = await poller.claim(10, BYTES, CAPACITY)
    assert.ok(Math.abs(performance.now() + storeOffset - 1_773_480_413_000) < 1000)
  })

  test('repeats a claim with the same token until it gets a result', async () => {
    isAway = true
    await assert.rejects(poller.claim(10, BYTES, CAPACITY), { code: 'store_unavailable' })
    await assert.rejects(poller.claim(5, BYTES, CAPACITY), { code: 'store_unavailable' })
    assert.equal(poller.hasUnanswered, true)
    isAway = false
    await poller.claim(3, BYTES, CAPACITY)
    assert.equal(poller.hasUnanswered, false)
    await poller.claim(3, BYTES, CAPACITY)
    const [first, second, third, fourth] = requests
    assert.deepEqual(
      requests.map(({ isRepeat, limit }) => [isRepeat, limit]),
      [
        [false, 10],
        [true, 5],
        [true, 3],
        [false, 3],
      ],
    )
    assert.ok(first?.token === second?.token && first?.token === third?.token)
    assert.notEqual(first?.token, fourth?.token)
  })

  test('starts a lease when the claim was first sent, because that one may have been executed', async (t) => {
    let now = 1000
    t.mock.method(performance, 'now', () => now)
    served = [at('we_1')]
    const [plain] = (await poller.claim(10, BYTES, CAPACITY)).deliveries
    assert.equal(plain?.leaseEndsAt, 1000 + LEASE_MS)
    isAway = true
    now = 5000
    await assert.rejects(poller.claim(10, BYTES, CAPACITY))
    isAway = false
    now = 20_000
    const [repeated] = (await poller.claim(10, BYTES, CAPACITY)).deliveries
    assert.deepEqual([repeated?.token, repeated?.leaseEndsAt], [requests[1]?.token, 5000 + LEASE_MS])
    mock.restoreAll()
  })

  test('visits each endpoint once per round, starting where the previous claim ended', async () => {
    assert.equal(await claimUpTo(at('we_b')), true)
    assert.equal(await claimUpTo(at('we_d')), true)
    assert.equal(await claimUpTo(at('we_a', 'org_2')), true)
    // Past the last endpoint and continuing with the first.
    assert.equal(await claimUpTo(at('we_c')), false)
    assert.equal(await claimUpTo(at('we_a', 'org_2')), true)
    assert.equal(await claimUpTo(at('we_b')), true)
    assert.equal(await claimUpTo(at('we_c')), false)
    assert.equal(await claimUpTo(at('we_b')), true)
    assert.deepEqual(
      requests.map(({ cursor }) => cursor?.endpointId ?? null),
      [null, 'we_b', 'we_d', 'we_a', 'we_c', 'we_a', 'we_b', 'we_c'],
    )
  })

  test('completes the round immediately if the store has inspected all endpoints', async () => {
    assert.equal(await claimUpTo(at('we_b')), true)
    assert.equal(await claimUpTo(null), false)
    assert.equal(await claimUpTo(null), false)
  })

  test('starts after the endpoint served last, so that each one is first at times', async () => {
    await claimUpTo(null, at('we_a'), at('we_b'))
    await claimUpTo(null)
    await claimUpTo(null, at('we_c'))
    await claimUpTo(null)
    assert.deepEqual(
      requests.map(({ cursor }) => cursor),
      [null, at('we_b'), at('we_b'), at('we_c')],
    )
  })
})
