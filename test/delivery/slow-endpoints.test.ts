import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import type { Claimed } from '../../lib/delivery/queue.ts'
import { createEndpointQueues, type EndpointQueues } from '../../lib/delivery/queues.ts'
import { createDeliverySlots } from '../../lib/delivery/slots.ts'

import { addTo, capacityOf, plan, runOne, SLOW_MS, takeAll } from './_queues.ts'

// Slow, blocked and unknown endpoints in fair dispatch, tested on their own.

describe('endpoints that are slow', () => {
  const CONCURRENCY = 32
  const slowOnes = Array.from({ length: 12 }, (_, index) => `we_slow_${index}`)

  /** Queues that know that twelve endpoints can take two attempts at once. */
  function createSlowQueues(): EndpointQueues {
    const queues = createEndpointQueues(createDeliverySlots(CONCURRENCY))
    for (const endpointId of slowOnes) runOne(queues, endpointId, 'less')
    return queues
  }

  /** Claims up to the capacity, as if the store had endless deliveries. Returns the attempts that start. */
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

  test('use at most half of the slots together, even with one claim', () => {
    const queues = createSlowQueues()
    assert.equal(claim(queues).length, CONCURRENCY / 2)
    assert.equal(claim(queues).length, 0)
    assert.equal(capacityOf(queues, 'we_new'), 4)
  })

  test('take turns', () => {
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

  test('take turns even if other slow endpoints have nothing to send', () => {
    const queues = createSlowQueues()
    const asked = new Set<string>()
    for (let round = 0; round < 4; round++) {
      for (const [endpointId, capacity] of Object.entries(plan(queues).capacity.endpoints)) {
        if (capacity > 0) asked.add(endpointId)
      }
    }
    assert.deepEqual([...asked].sort(), slowOnes.toSorted())
  })

  test('report capacity for another slow endpoint', () => {
    const queues = createSlowQueues()
    const [first] = claim(queues)
    assert.ok(first)
    assert.equal(queues.end(first, 'same', SLOW_MS), true)
  })

  test('are no longer slow after enough successes', () => {
    const queues = createSlowQueues()
    const [endpointId = '', ...others] = slowOnes
    runOne(queues, endpointId, 'more')
    runOne(queues, endpointId, 'more')
    for (const other of others.slice(0, CONCURRENCY / 4)) addTo(queues, 2, other, `org_${other}`)
    takeAll(queues)
    assert.equal(capacityOf(queues, endpointId), 4)
  })

  test('are still tried if there is only one slot', () => {
    const queues = createEndpointQueues(createDeliverySlots(1))
    runOne(queues, 'we_1', 'less')
    assert.equal(capacityOf(queues, 'we_1'), 1)
  })
})

describe('over time', () => {
  let now = 0
  beforeEach(() => {
    now = 1_000_000
    // The timers of node:test don't affect the monotonic clock.
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  test('a blocked endpoint gets nothing until the time is up, while others do', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
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

  test('the state of an endpoint is dropped after ten minutes without a delivery', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    runOne(queues, 'we_1', 'less')
    now += 599_999
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 2)
    now += 1
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 4)
  })

  test('the state of an endpoint with an attempt in flight is kept', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    addTo(queues, 4, 'we_1')
    const [first] = takeAll(queues)
    now += 600_000
    queues.sweep()
    assert.equal(capacityOf(queues, 'we_1'), 0)
    assert.ok(first)
    queues.end(first, 'same', SLOW_MS)
    assert.equal(capacityOf(queues, 'we_1'), 1)
  })

  test('unproven endpoints use at most half of the slots, and three quarters together with slow ones', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    runOne(queues, 'we_known', 'more')
    for (let number = 0; number < 32; number++) addTo(queues, 4, `we_${number}`)
    takeAll(queues)
    assert.equal(queues.inFlight, 128)
    assert.equal(plan(queues).capacity.endpoint, 0)
    assert.equal(capacityOf(queues, 'we_known') > 0, true, 'who is known to answer has room')
    // An endpoint that hangs for a second is slow and leaves capacity for unknown ones.
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
