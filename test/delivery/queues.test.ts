import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createEndpointQueues } from '../../lib/delivery/queues.ts'
import { createDeliverySlots } from '../../lib/delivery/slots.ts'

import { addTo, capacityOf, limitOf, plan, QUICK_MS, runOne, SLOW_MS, takeAll } from './_queues.ts'

// The limits, order and claims of fair dispatch on their own. fair-dispatch.test.ts has the effect in a running loop.

describe('the attempts of one endpoint', () => {
  test("start with four at once, up to half of the organization's budget", () => {
    assert.equal(limitOf(createEndpointQueues(createDeliverySlots(256)), 'we_1'), 4)
    assert.equal(limitOf(createEndpointQueues(createDeliverySlots(24)), 'we_1'), 3)
    assert.equal(limitOf(createEndpointQueues(createDeliverySlots(1)), 'we_1'), 1)
  })

  test("get one more with each success, up to 32 or half of the organization's budget", () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    const few = createEndpointQueues(createDeliverySlots(48))
    for (let success = 1; success <= 40; success++) {
      runOne(queues, 'we_1', 'more')
      runOne(few, 'we_1', 'more')
      assert.equal(limitOf(queues, 'we_1'), Math.min(32, 4 + success))
      assert.equal(limitOf(few, 'we_1'), Math.min(6, 4 + success))
    }
  })

  test('are halved after a timeout or 429, down to one', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    for (let success = 1; success <= 9; success++) runOne(queues, 'we_1', 'more')
    const caps = [1, 2, 3, 4, 5].map(() => {
      runOne(queues, 'we_1', 'less')
      return limitOf(queues, 'we_1')
    })
    assert.deepEqual(caps, [6, 3, 1, 1, 1])
  })

  test('stay the same after any other failure', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    runOne(queues, 'we_1', 'same')
    assert.equal(limitOf(queues, 'we_1'), 4)
  })

  test("don't count for another endpoint", () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    runOne(queues, 'we_1', 'less')
    assert.equal(limitOf(queues, 'we_2'), 4)
  })

  test('wait if the concurrency limit was lowered after the claim', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
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

describe('the next attempt', () => {
  test("is taken from the endpoints in turn and in each endpoint's order", () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
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

  test('requires a free slot', () => {
    const queues = createEndpointQueues(createDeliverySlots(3))
    for (const endpointId of ['we_1', 'we_2', 'we_3', 'we_4', 'we_5']) addTo(queues, 1, endpointId)
    const taken = takeAll(queues)
    assert.deepEqual([taken.length, queues.inFlight, queues.waiting], [3, 3, 2])
    const [first] = taken
    assert.ok(first)
    queues.end(first, 'same', SLOW_MS)
    assert.deepEqual([takeAll(queues).length, queues.inFlight, queues.waiting], [1, 3, 1])
  })

  test("doesn't exist after drain(), which returns waiting deliveries and keeps attempts in flight", () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    addTo(queues, 6, 'we_1')
    addTo(queues, 1, 'we_2', 'org_2')
    const inFlight = takeAll(queues)
    assert.equal(queues.drain().length, 2)
    assert.deepEqual([queues.next(), queues.inFlight, queues.waiting], [undefined, 5, 0])
    for (const delivery of inFlight) queues.end(delivery, 'same', SLOW_MS)
    const { limit, capacity } = plan(queues)
    const { limit: all, capacity: whole } = plan(createEndpointQueues(createDeliverySlots(256)))
    assert.deepEqual([limit, capacity], [all, whole])
  })
})

describe('planClaim()', () => {
  test('is limited to 100 in total and to the free slots', () => {
    assert.ok(plan(createEndpointQueues(createDeliverySlots(10_000))).limit <= 100)
    const queues = createEndpointQueues(createDeliverySlots(8))
    assert.equal(plan(queues).limit, 8)
    addTo(queues, 5, 'we_1')
    assert.equal(plan(queues).limit, 3)
    takeAll(queues)
    assert.equal(plan(queues).limit, 3)
  })

  test('is four for a new endpoint, and the rest of the concurrency limit for a known one', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    assert.equal(capacityOf(queues, 'we_1'), 4)
    addTo(queues, 3, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 1)
    takeAll(queues)
    assert.equal(capacityOf(queues, 'we_1'), 1)
    addTo(queues, 2, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 0)
    assert.equal(capacityOf(queues, 'we_2'), 4)
  })

  test('is twice as much for an endpoint with quick responses, but not with quick failures', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    addTo(queues, 2, 'we_1')
    const [first, second] = takeAll(queues)
    assert.ok(first && second)
    queues.end(first, 'more', QUICK_MS)
    assert.equal(capacityOf(queues, 'we_1'), 5 + 5 - 1)
    queues.end(second, 'same', QUICK_MS)
    addTo(queues, 1, 'we_1')
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })

  test('is a quarter of the slots for an organization, minus those in use', () => {
    const queues = createEndpointQueues(createDeliverySlots(40))
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

  test('is at least one for an organization, even if there are few slots', () => {
    assert.equal(plan(createEndpointQueues(createDeliverySlots(1))).capacity.organization, 1)
    assert.equal(plan(createEndpointQueues(createDeliverySlots(3))).capacity.organization, 1)
  })
})

describe('the end of an attempt requests a claim', () => {
  test('if the endpoint was at capacity', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    plan(queues)
    addTo(queues, 4, 'we_1')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('but not if every due delivery had been claimed', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    plan(queues)
    addTo(queues, 3, 'we_1')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), false)
  })

  test('if the organization was at capacity', () => {
    const queues = createEndpointQueues(createDeliverySlots(8))
    plan(queues)
    addTo(queues, 1, 'we_1')
    addTo(queues, 1, 'we_2')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('and again after each attempt until a claim has returned less than the capacity', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
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
  test('can use its full capacity while more of its deliveries may be due', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    for (let success = 1; success <= 6; success++) runOne(queues, 'we_1', 'more')
    plan(queues)
    addTo(queues, 10, 'we_1')
    for (const delivery of takeAll(queues)) queues.end(delivery, 'same', SLOW_MS)
    assert.equal(capacityOf(queues, 'we_1'), 10)
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })
})
