import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import type { ClaimPlan } from '../../lib/delivery/claim-plan.ts'
import type { Claimed } from '../../lib/delivery/queue.ts'
import { createEndpointQueues, type EndpointQueues } from '../../lib/delivery/queues.ts'
import type { Verdict } from '../../lib/delivery/verdict.ts'

// Fair dispatch by itself: how much a process takes on, and what goes next. What comes of it is in fair-dispatch.test.ts.

const SLOW_MS = 2000
const QUICK_MS = 5

let deliveries = 0

function newDelivery(endpointId: string, organizationId = 'org_1'): Claimed {
  deliveries++
  return {
    organizationId,
    id: `dlv_${deliveries}`,
    endpointId,
    eventId: `evt_${deliveries}`,
    type: 'project.completed',
    body: '{}',
    url: 'https://subscriber.test/',
    headerNames: [],
    sealedHeaders: null,
    sealedSecrets: ['plain.whsec_test'],
    attempt: 1,
    token: 'token',
    leaseEndsAt: Number.POSITIVE_INFINITY,
  }
}

function addTo(queues: EndpointQueues, count: number, endpointId: string, organizationId?: string): void {
  for (let added = 0; added < count; added++) queues.add(newDelivery(endpointId, organizationId))
}

/** Sends all that may go now. */
function takeAll(queues: EndpointQueues): Claimed[] {
  const taken: Claimed[] = []
  for (let next = queues.next(); next; next = queues.next()) taken.push(next)
  return taken
}

/** Brings one delivery of an endpoint to its end. */
function runOne(
  queues: EndpointQueues,
  endpointId: string,
  load: Verdict['load'],
  durationMs = SLOW_MS,
): void {
  queues.add(newDelivery(endpointId))
  const delivery = queues.next()
  assert.ok(delivery)
  queues.end(delivery, load, durationMs)
}

/** How many attempts of an endpoint are let go at once when there is no end of them. */
function limitOf(queues: EndpointQueues, endpointId: string): number {
  addTo(queues, 64, endpointId)
  const taken = takeAll(queues)
  queues.drain()
  for (const delivery of taken) queues.end(delivery, 'same', SLOW_MS)
  return taken.length
}

/** Plans a claim, which counts as made. */
function plan(queues: EndpointQueues): ClaimPlan {
  const planned = queues.planClaim()
  queues.adoptPlan(planned)
  return planned
}

/** How many deliveries of an endpoint the next claim may bring. */
function capacityOf(queues: EndpointQueues, endpointId: string): number {
  const { endpoint, endpoints } = plan(queues).capacity
  return endpoints[endpointId] ?? endpoint
}

describe('the attempts of one endpoint', () => {
  test('are four at once to begin with, and at most half of what their organization may have', () => {
    assert.equal(limitOf(createEndpointQueues(256), 'we_1'), 4)
    assert.equal(limitOf(createEndpointQueues(24), 'we_1'), 3)
    assert.equal(limitOf(createEndpointQueues(1), 'we_1'), 1)
  })

  test('are one more with each success, to 32 or half of what their organization may have', () => {
    const queues = createEndpointQueues(256)
    const few = createEndpointQueues(48)
    for (let success = 1; success <= 40; success++) {
      runOne(queues, 'we_1', 'more')
      runOne(few, 'we_1', 'more')
      assert.equal(limitOf(queues, 'we_1'), Math.min(32, 4 + success))
      assert.equal(limitOf(few, 'we_1'), Math.min(6, 4 + success))
    }
  })

  test('are halved after a timeout or 429, down to one', () => {
    const queues = createEndpointQueues(256)
    for (let success = 1; success <= 9; success++) runOne(queues, 'we_1', 'more')
    const caps = [1, 2, 3, 4, 5].map(() => {
      runOne(queues, 'we_1', 'less')
      return limitOf(queues, 'we_1')
    })
    assert.deepEqual(caps, [6, 3, 1, 1, 1])
  })

  test('stay as many after any other failure', () => {
    const queues = createEndpointQueues(256)
    runOne(queues, 'we_1', 'same')
    assert.equal(limitOf(queues, 'we_1'), 4)
  })

  test('do not count for another endpoint', () => {
    const queues = createEndpointQueues(256)
    runOne(queues, 'we_1', 'less')
    assert.equal(limitOf(queues, 'we_2'), 4)
  })

  test('wait when the cap was lowered after they were claimed', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 6, 'we_1')
    const [first, second, ...others] = takeAll(queues)
    assert.ok(first && second)
    queues.end(first, 'less', SLOW_MS)
    assert.deepEqual(takeAll(queues), [])
    queues.end(second, 'less', SLOW_MS)
    for (const delivery of others) queues.end(delivery, 'same', SLOW_MS)
    assert.equal(takeAll(queues).length, 1)
  })
})

describe('what goes next', () => {
  test('is taken from the endpoints in turn, in the order of each', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 3, 'we_1')
    addTo(queues, 2, 'we_2')
    addTo(queues, 1, 'we_3')
    const taken = takeAll(queues)
    assert.deepEqual(
      taken.map(({ endpointId }) => endpointId),
      ['we_1', 'we_2', 'we_3', 'we_1', 'we_2', 'we_1'],
    )
    const numbers = taken
      .filter(({ endpointId }) => endpointId === 'we_1')
      .map(({ id }) => Number(id.replace('dlv_', '')))
    assert.deepEqual(
      numbers,
      numbers.toSorted((one, other) => one - other),
    )
  })

  test('is no more than there are slots for', () => {
    const queues = createEndpointQueues(3)
    for (const endpointId of ['we_1', 'we_2', 'we_3', 'we_4', 'we_5']) addTo(queues, 1, endpointId)
    const taken = takeAll(queues)
    assert.deepEqual([taken.length, queues.inFlight, queues.waiting], [3, 3, 2])
    const [first] = taken
    assert.ok(first)
    queues.end(first, 'same', SLOW_MS)
    assert.deepEqual([takeAll(queues).length, queues.inFlight, queues.waiting], [1, 3, 1])
  })

  test('is nothing after drain(), which gives back all that waits and leaves what is in flight', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 6, 'we_1')
    addTo(queues, 1, 'we_2', 'org_2')
    const inFlight = takeAll(queues)
    assert.equal(queues.drain().length, 2)
    assert.deepEqual([queues.next(), queues.inFlight, queues.waiting], [undefined, 5, 0])
    for (const delivery of inFlight) queues.end(delivery, 'same', SLOW_MS)
    const { limit, capacity } = plan(queues)
    const { limit: all, capacity: whole } = plan(createEndpointQueues(256))
    assert.deepEqual([limit, capacity], [all, whole])
  })
})

describe('planClaim()', () => {
  test('is at most 100 in all, however many slots there are, and no more than are free', () => {
    assert.ok(plan(createEndpointQueues(10_000)).limit <= 100)
    const queues = createEndpointQueues(8)
    assert.equal(plan(queues).limit, 8)
    addTo(queues, 5, 'we_1')
    assert.equal(plan(queues).limit, 3)
    takeAll(queues)
    assert.equal(plan(queues).limit, 3)
  })

  test('is four for an endpoint that is new, and what its cap leaves for one that is not', () => {
    const queues = createEndpointQueues(256)
    assert.equal(capacityOf(queues, 'we_1'), 4)
    addTo(queues, 3, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 1)
    takeAll(queues)
    assert.equal(capacityOf(queues, 'we_1'), 1)
    addTo(queues, 2, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 0)
    assert.equal(capacityOf(queues, 'we_2'), 4)
  })

  test('is as much again for an endpoint that answers quickly, and not for one that fails quickly', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 2, 'we_1')
    const [first, second] = takeAll(queues)
    assert.ok(first && second)
    queues.end(first, 'more', QUICK_MS)
    assert.equal(capacityOf(queues, 'we_1'), 5 + 5 - 1)
    queues.end(second, 'same', QUICK_MS)
    addTo(queues, 1, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })

  test('is a quarter of the slots for one organization, whatever it has been given of them', () => {
    const queues = createEndpointQueues(40)
    const shareOf = (organizationId: string) => {
      const { organization, organizations } = plan(queues).capacity
      return organizations[organizationId] ?? organization
    }
    assert.equal(shareOf('org_1'), 10)
    addTo(queues, 4, 'we_1', 'org_1')
    addTo(queues, 3, 'we_2', 'org_1')
    const [first] = takeAll(queues)
    assert.deepEqual([shareOf('org_1'), shareOf('org_2')], [3, 10])
    addTo(queues, 5, 'we_3', 'org_1')
    assert.equal(shareOf('org_1'), 0)
    assert.ok(first)
    queues.drain()
    queues.end(first, 'more', SLOW_MS)
    assert.equal(shareOf('org_1'), 4)
  })

  test('is at least one for an organization, however few slots there are', () => {
    assert.equal(plan(createEndpointQueues(1)).capacity.organization, 1)
    assert.equal(plan(createEndpointQueues(3)).capacity.organization, 1)
  })
})

describe('endpoints that are slow', () => {
  const CONCURRENCY = 32
  const slowOnes = Array.from({ length: 12 }, (_, index) => `we_slow_${index}`)

  /** Queues that have learnt that twelve endpoints can take two attempts at once. */
  function createSlowQueues(): EndpointQueues {
    const queues = createEndpointQueues(CONCURRENCY)
    for (const endpointId of slowOnes) runOne(queues, endpointId, 'less')
    return queues
  }

  /** Claims all that there is room for, as from a store with endless deliveries; gives what goes then. */
  function claim(queues: EndpointQueues): Claimed[] {
    const { limit, capacity } = plan(queues)
    let left = limit
    for (const endpointId of slowOnes) {
      const count = Math.min(capacity.endpoints[endpointId] ?? capacity.endpoint, left)
      addTo(queues, count, endpointId, `org_${endpointId}`)
      left -= count
    }
    return takeAll(queues)
  }

  test('together take at most half of the slots, even with one claim', () => {
    const queues = createSlowQueues()
    assert.equal(claim(queues).length, CONCURRENCY / 2)
    assert.equal(claim(queues).length, 0)
    assert.equal(capacityOf(queues, 'we_new'), 4)
  })

  test('all have their turn', () => {
    const queues = createSlowQueues()
    const served = new Set<string>()
    for (let round = 0; round < 4; round++) {
      for (const delivery of claim(queues)) {
        served.add(delivery.endpointId)
        queues.end(delivery, 'same', SLOW_MS)
      }
    }
    assert.deepEqual([...served].sort(), slowOnes.toSorted())
  })

  test('all have their turn when some of them have nothing to send', () => {
    const queues = createSlowQueues()
    const asked = new Set<string>()
    for (let round = 0; round < 4; round++) {
      for (const [endpointId, capacity] of Object.entries(plan(queues).capacity.endpoints)) {
        if (capacity > 0) asked.add(endpointId)
      }
    }
    assert.deepEqual([...asked].sort(), slowOnes.toSorted())
  })

  test('say when there is room for another of them', () => {
    const queues = createSlowQueues()
    const [first] = claim(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('are slow no more once they have succeeded often enough', () => {
    const queues = createSlowQueues()
    const [endpointId = '', ...others] = slowOnes
    runOne(queues, endpointId, 'more')
    runOne(queues, endpointId, 'more')
    for (const other of others.slice(0, CONCURRENCY / 4)) addTo(queues, 2, other, `org_${other}`)
    takeAll(queues)
    assert.equal(capacityOf(queues, endpointId), 4)
  })

  test('are still tried where there is only one slot', () => {
    const queues = createEndpointQueues(1)
    runOne(queues, 'we_1', 'less')
    assert.equal(capacityOf(queues, 'we_1'), 1)
  })
})

describe('an end says that more should be claimed', () => {
  test('when the endpoint had all it could take', () => {
    const queues = createEndpointQueues(256)
    plan(queues)
    addTo(queues, 4, 'we_1')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('and not when all that was due had been claimed', () => {
    const queues = createEndpointQueues(256)
    plan(queues)
    addTo(queues, 3, 'we_1')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), false)
  })

  test('when its organization had all it could take', () => {
    const queues = createEndpointQueues(8)
    plan(queues)
    addTo(queues, 1, 'we_1')
    addTo(queues, 1, 'we_2')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('and goes on to say so until a claim has brought less than there was room for', () => {
    const queues = createEndpointQueues(256)
    plan(queues)
    addTo(queues, 4, 'we_1')
    const [first, second, third] = takeAll(queues)
    assert.ok(first && second && third)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
    assert.equal(queues.end(second, 'same', SLOW_MS), true)
    plan(queues)
    addTo(queues, 1, 'we_1')
    assert.equal(queues.end(third, 'same', SLOW_MS), false)
  })
})

describe('an endpoint that has been idle for a moment', () => {
  test('is asked for as much as it can take while more of it may be due', () => {
    const queues = createEndpointQueues(256)
    for (let success = 1; success <= 6; success++) runOne(queues, 'we_1', 'more')
    plan(queues)
    addTo(queues, 10, 'we_1')
    for (const delivery of takeAll(queues)) queues.end(delivery, 'same', SLOW_MS)
    assert.equal(capacityOf(queues, 'we_1'), 10)
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })
})

describe('as time goes by', () => {
  let now = 0
  beforeEach(() => {
    now = 1_000_000
    // The timers of node:test leave the monotonic clock alone.
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  test('a blocked endpoint gets nothing, while others do, until the time is over', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 1, 'we_1')
    const delivery = queues.next()
    assert.ok(delivery)
    queues.block(delivery, 30_000)
    queues.end(delivery, 'same', 0)
    assert.deepEqual([capacityOf(queues, 'we_1'), capacityOf(queues, 'we_2')], [0, 4])
    now += 29_999
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 0)
    now += 1
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })

  test('what was learnt of an endpoint is forgotten after ten minutes without a delivery', () => {
    const queues = createEndpointQueues(256)
    runOne(queues, 'we_1', 'less')
    now += 599_999
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 2)
    now += 1
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })

  test('nothing is forgotten of an endpoint whose attempt has not ended', () => {
    const queues = createEndpointQueues(256)
    addTo(queues, 4, 'we_1')
    const [first] = takeAll(queues)
    now += 600_000
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 0)
    assert.ok(first)
    queues.end(first, 'same', SLOW_MS)
    assert.equal(capacityOf(queues, 'we_1'), 1)
  })

  test('endpoints that nobody knows yet take at most half of the slots, and with the slow ones three quarters, until they have answered', () => {
    const queues = createEndpointQueues(256)
    runOne(queues, 'we_known', 'more')
    for (let number = 0; number < 32; number++) addTo(queues, 4, `we_${number}`)
    takeAll(queues)
    assert.equal(queues.inFlight, 128)
    assert.equal(plan(queues).capacity.endpoint, 0)
    assert.equal(capacityOf(queues, 'we_known') > 0, true, 'who is known to answer has room')
    // What hangs for a second is slow, and makes room for others who are not known.
    now += 1001
    assert.equal(plan(queues).capacity.endpoint, 4)
    for (let number = 32; number < 48; number++) addTo(queues, 4, `we_${number}`)
    takeAll(queues)
    assert.equal(queues.inFlight, 192)
    now += 1001
    assert.equal(plan(queues).capacity.endpoint, 0, 'three quarters are enough for all who may be dead')
    assert.equal(capacityOf(queues, 'we_known') > 0, true)
  })
})
