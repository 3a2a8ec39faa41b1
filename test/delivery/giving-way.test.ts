import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { createEndpointQueues, type EndpointQueues } from '../../lib/delivery/queues.ts'
import { createDeliverySlots } from '../../lib/delivery/slots.ts'
import { addTo, capacityOf, limitOf, newDelivery, plan, QUICK_MS, runOne, takeAll } from './_queues.ts'

// How an endpoint with a backlog makes room for others, and what happens after a rejection. Uses a fake clock.

let now = 1_000_000
beforeEach(() => {
  mock.method(performance, 'now', () => now)
})
afterEach(() => mock.restoreAll())

/** Makes a claim that returns deliveries of endpoints, which then succeed. */
function claim(queues: EndpointQueues, brought: Readonly<Record<string, number>>): void {
  plan(queues)
  for (const [endpointId, count] of Object.entries(brought)) addTo(queues, count, endpointId)
}

function endAll(queues: EndpointQueues): void {
  for (const delivery of takeAll(queues)) queues.end(delivery, 'more', QUICK_MS)
}

describe('a backlog', () => {
  test('is not throttled for its own endpoint, even if a claim returned less than requested', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    claim(queues, { we_busy: 4 })
    assert.equal(queues.throttle(200), false)
    endAll(queues)
    claim(queues, { we_busy: 1 })
    assert.equal(queues.throttle(200), false)
    endAll(queues)
    claim(queues, { we_busy: capacityOf(queues, 'we_busy') })
    assert.equal(queues.throttle(200), false)
    assert.ok(capacityOf(queues, 'we_busy') > 0)
  })

  test("is throttled for a second after another endpoint's last delivery, and no longer", () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    claim(queues, { we_busy: 4, we_calm: 1 })
    assert.equal(queues.throttle(200), true)
    assert.equal(capacityOf(queues, 'we_busy'), 0)
    assert.ok(capacityOf(queues, 'we_calm') > 0)
    endAll(queues)
    now += 900
    claim(queues, { we_busy: capacityOf(queues, 'we_busy') })
    assert.equal(queues.throttle(50), true)
    endAll(queues)
    now += 101
    claim(queues, { we_busy: capacityOf(queues, 'we_busy') })
    assert.equal(queues.throttle(50), false)
  })
})

describe('an endpoint that was idle for a second', () => {
  test('starts with the start limit again, unlike an endpoint in use', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    for (let success = 0; success < 8; success++) runOne(queues, 'we_1', 'more')
    now += 999
    assert.equal(limitOf(queues, 'we_1'), 12)
    now += 1000
    assert.equal(limitOf(queues, 'we_1'), 4)
  })
})

describe('an endpoint that rejects a delivery', () => {
  test('releases what is waiting and gets nothing until the store knows', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    addTo(queues, 7, 'we_1')
    const [first] = takeAll(queues)
    assert.ok(first)
    assert.equal(queues.hold(first).length, 3)
    assert.equal(queues.waiting, 0)
    assert.equal(queues.add(newDelivery('we_1'), now), false)
    assert.equal(capacityOf(queues, 'we_1'), 0)
    const sentAt = now
    now += 5
    queues.endHold(first)
    queues.end(first, 'same', QUICK_MS)
    assert.equal(queues.add(newDelivery('we_1'), sentAt), false, 'of a claim before the rejection was known')
    assert.equal(queues.add(newDelivery('we_1'), now), true)
    assert.equal(takeAll(queues).length, 1)
  })

  test('is not held forever if its rejection is never written', () => {
    const queues = createEndpointQueues(createDeliverySlots(256))
    queues.hold(newDelivery('we_1'))
    now += 5000
    assert.equal(queues.add(newDelivery('we_1'), now), true)
  })
})
