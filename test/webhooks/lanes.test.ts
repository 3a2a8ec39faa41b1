import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import type { Claimed } from '../../lib/webhooks/lane.ts'
import { createLanes, type Lanes } from '../../lib/webhooks/lanes.ts'
import type { Verdict } from '../../lib/webhooks/verdict.ts'

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
    headers: {},
    sealedSecrets: ['plain.whsec_test'],
    attempt: 1,
    token: 'token',
    leaseEndsAt: Number.POSITIVE_INFINITY,
  }
}

function addTo(lanes: Lanes, count: number, endpointId: string, organizationId?: string): void {
  for (let added = 0; added < count; added++) lanes.add(newDelivery(endpointId, organizationId))
}

/** Sends all that may go now. */
function takeAll(lanes: Lanes): Claimed[] {
  const taken: Claimed[] = []
  for (let next = lanes.next(); next; next = lanes.next()) taken.push(next)
  return taken
}

/** Brings one delivery of an endpoint to its end. */
function runOne(lanes: Lanes, endpointId: string, load: Verdict['load'], durationMs = SLOW_MS): void {
  lanes.add(newDelivery(endpointId))
  const delivery = lanes.next()
  assert.ok(delivery)
  lanes.end(delivery, load, durationMs)
}

/** How many attempts of an endpoint are let go at once when there is no end of them. */
function capOf(lanes: Lanes, endpointId: string): number {
  addTo(lanes, 64, endpointId)
  const taken = takeAll(lanes)
  lanes.drain()
  for (const delivery of taken) lanes.end(delivery, 'same', SLOW_MS)
  return taken.length
}

/** What the next claim may bring of an endpoint. */
function roomOf(lanes: Lanes, endpointId: string): number {
  const { endpoint, endpoints } = lanes.room().room
  return endpoints[endpointId] ?? endpoint
}

describe('the attempts of one endpoint', () => {
  test('are four at once to begin with, and at most half of what their organization may have', () => {
    assert.equal(capOf(createLanes(256), 'we_1'), 4)
    assert.equal(capOf(createLanes(24), 'we_1'), 3)
    assert.equal(capOf(createLanes(1), 'we_1'), 1)
  })

  test('are one more with each success, to 32 or half of what their organization may have', () => {
    const lanes = createLanes(256)
    const few = createLanes(48)
    for (let success = 1; success <= 40; success++) {
      runOne(lanes, 'we_1', 'more')
      runOne(few, 'we_1', 'more')
      assert.equal(capOf(lanes, 'we_1'), Math.min(32, 4 + success))
      assert.equal(capOf(few, 'we_1'), Math.min(6, 4 + success))
    }
  })

  test('are halved after a timeout or 429, down to one', () => {
    const lanes = createLanes(256)
    for (let success = 1; success <= 9; success++) runOne(lanes, 'we_1', 'more')
    const caps = [1, 2, 3, 4, 5].map(() => {
      runOne(lanes, 'we_1', 'less')
      return capOf(lanes, 'we_1')
    })
    assert.deepEqual(caps, [6, 3, 1, 1, 1])
  })

  test('stay as many after any other failure', () => {
    const lanes = createLanes(256)
    runOne(lanes, 'we_1', 'same')
    assert.equal(capOf(lanes, 'we_1'), 4)
  })

  test('do not count for another endpoint', () => {
    const lanes = createLanes(256)
    runOne(lanes, 'we_1', 'less')
    assert.equal(capOf(lanes, 'we_2'), 4)
  })

  test('wait when the cap was lowered after they were claimed', () => {
    const lanes = createLanes(256)
    addTo(lanes, 6, 'we_1')
    const [first, second, ...others] = takeAll(lanes)
    assert.ok(first && second)
    lanes.end(first, 'less', SLOW_MS)
    assert.deepEqual(takeAll(lanes), [])
    lanes.end(second, 'less', SLOW_MS)
    for (const delivery of others) lanes.end(delivery, 'same', SLOW_MS)
    assert.equal(takeAll(lanes).length, 1)
  })
})

describe('what goes next', () => {
  test('is taken from the endpoints in turn, in the order of each', () => {
    const lanes = createLanes(256)
    addTo(lanes, 3, 'we_1')
    addTo(lanes, 2, 'we_2')
    addTo(lanes, 1, 'we_3')
    const taken = takeAll(lanes)
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
    const lanes = createLanes(3)
    for (const endpointId of ['we_1', 'we_2', 'we_3', 'we_4', 'we_5']) addTo(lanes, 1, endpointId)
    const taken = takeAll(lanes)
    assert.deepEqual([taken.length, lanes.inFlight, lanes.waiting], [3, 3, 2])
    const [first] = taken
    assert.ok(first)
    lanes.end(first, 'same', SLOW_MS)
    assert.deepEqual([takeAll(lanes).length, lanes.inFlight, lanes.waiting], [1, 3, 1])
  })

  test('is nothing after drain(), which gives back all that waits and leaves what is in flight', () => {
    const lanes = createLanes(256)
    addTo(lanes, 6, 'we_1')
    addTo(lanes, 1, 'we_2', 'org_2')
    const inFlight = takeAll(lanes)
    assert.equal(lanes.drain().length, 2)
    assert.deepEqual([lanes.next(), lanes.inFlight, lanes.waiting], [undefined, 5, 0])
    for (const delivery of inFlight) lanes.end(delivery, 'same', SLOW_MS)
    assert.deepEqual(lanes.room(), createLanes(256).room())
  })
})

describe('room()', () => {
  test('is at most 100 in all, however many slots there are, and no more than are free', () => {
    assert.ok(createLanes(10_000).room().limit <= 100)
    const lanes = createLanes(8)
    assert.equal(lanes.room().limit, 8)
    addTo(lanes, 5, 'we_1')
    assert.equal(lanes.room().limit, 3)
    takeAll(lanes)
    assert.equal(lanes.room().limit, 3)
  })

  test('is four for an endpoint that is new, and what its cap leaves for one that is not', () => {
    const lanes = createLanes(256)
    assert.equal(roomOf(lanes, 'we_1'), 4)
    addTo(lanes, 3, 'we_1')
    assert.equal(roomOf(lanes, 'we_1'), 1)
    takeAll(lanes)
    assert.equal(roomOf(lanes, 'we_1'), 1)
    addTo(lanes, 2, 'we_1')
    assert.equal(roomOf(lanes, 'we_1'), 0)
    assert.equal(roomOf(lanes, 'we_2'), 4)
  })

  test('is as much again for an endpoint that answers quickly, and not for one that fails quickly', () => {
    const lanes = createLanes(256)
    addTo(lanes, 2, 'we_1')
    const [first, second] = takeAll(lanes)
    assert.ok(first && second)
    lanes.end(first, 'more', QUICK_MS)
    assert.equal(roomOf(lanes, 'we_1'), 5 + 5 - 1)
    lanes.end(second, 'same', QUICK_MS)
    addTo(lanes, 1, 'we_1')
    assert.equal(roomOf(lanes, 'we_1'), 4)
  })

  test('is a quarter of the slots for one organization, whatever it has been given of them', () => {
    const lanes = createLanes(40)
    const shareOf = (organizationId: string) => {
      const { organization, organizations } = lanes.room().room
      return organizations[organizationId] ?? organization
    }
    assert.equal(shareOf('org_1'), 10)
    addTo(lanes, 4, 'we_1', 'org_1')
    addTo(lanes, 3, 'we_2', 'org_1')
    const [first] = takeAll(lanes)
    assert.deepEqual([shareOf('org_1'), shareOf('org_2')], [3, 10])
    addTo(lanes, 5, 'we_3', 'org_1')
    assert.equal(shareOf('org_1'), 0)
    assert.ok(first)
    lanes.drain()
    lanes.end(first, 'more', SLOW_MS)
    assert.equal(shareOf('org_1'), 4)
  })

  test('is at least one for an organization, however few slots there are', () => {
    assert.equal(createLanes(1).room().room.organization, 1)
    assert.equal(createLanes(3).room().room.organization, 1)
  })
})

describe('endpoints that are slow', () => {
  const CONCURRENCY = 32
  const slowOnes = Array.from({ length: 12 }, (_, index) => `we_slow_${index}`)

  /** Lanes that have learnt that twelve endpoints can take two attempts at once. */
  function createSlowLanes(): Lanes {
    const lanes = createLanes(CONCURRENCY)
    for (const endpointId of slowOnes) runOne(lanes, endpointId, 'less')
    return lanes
  }

  /** Claims all that there is room for, as from a store with endless deliveries; gives what goes then. */
  function claim(lanes: Lanes): Claimed[] {
    const { limit, room } = lanes.room()
    let left = limit
    for (const endpointId of slowOnes) {
      const count = Math.min(room.endpoints[endpointId] ?? room.endpoint, left)
      addTo(lanes, count, endpointId, `org_${endpointId}`)
      left -= count
    }
    return takeAll(lanes)
  }

  test('together take at most half of the slots, even with one claim', () => {
    const lanes = createSlowLanes()
    assert.equal(claim(lanes).length, CONCURRENCY / 2)
    assert.equal(claim(lanes).length, 0)
    assert.equal(roomOf(lanes, 'we_new'), 4)
  })

  test('all have their turn', () => {
    const lanes = createSlowLanes()
    const served = new Set<string>()
    for (let round = 0; round < 4; round++) {
      for (const delivery of claim(lanes)) {
        served.add(delivery.endpointId)
        lanes.end(delivery, 'same', SLOW_MS)
      }
    }
    assert.deepEqual([...served].sort(), slowOnes.toSorted())
  })

  test('all have their turn when some of them have nothing to send', () => {
    const lanes = createSlowLanes()
    const asked = new Set<string>()
    for (let round = 0; round < 4; round++) {
      for (const [endpointId, room] of Object.entries(lanes.room().room.endpoints)) {
        if (room > 0) asked.add(endpointId)
      }
    }
    assert.deepEqual([...asked].sort(), slowOnes.toSorted())
  })

  test('say when there is room for another of them', () => {
    const lanes = createSlowLanes()
    const [first] = claim(lanes)
    assert.ok(first)
    assert.equal(lanes.end(first, 'same', SLOW_MS), true)
  })

  test('are slow no more once they have succeeded often enough', () => {
    const lanes = createSlowLanes()
    const [endpointId = '', ...others] = slowOnes
    runOne(lanes, endpointId, 'more')
    runOne(lanes, endpointId, 'more')
    for (const other of others.slice(0, CONCURRENCY / 4)) addTo(lanes, 2, other, `org_${other}`)
    takeAll(lanes)
    assert.equal(roomOf(lanes, endpointId), 4)
  })

  test('are still tried where there is only one slot', () => {
    const lanes = createLanes(1)
    runOne(lanes, 'we_1', 'less')
    assert.equal(roomOf(lanes, 'we_1'), 1)
  })
})

describe('an end says that more should be claimed', () => {
  test('when the endpoint had all it could take', () => {
    const lanes = createLanes(256)
    lanes.room()
    addTo(lanes, 4, 'we_1')
    const [first] = takeAll(lanes)
    assert.ok(first)
    assert.equal(lanes.end(first, 'same', SLOW_MS), true)
  })

  test('and not when all that was due had been claimed', () => {
    const lanes = createLanes(256)
    lanes.room()
    addTo(lanes, 3, 'we_1')
    const [first] = takeAll(lanes)
    assert.ok(first)
    assert.equal(lanes.end(first, 'same', SLOW_MS), false)
  })

  test('when its organization had all it could take', () => {
    const lanes = createLanes(8)
    lanes.room()
    addTo(lanes, 1, 'we_1')
    addTo(lanes, 1, 'we_2')
    const [first] = takeAll(lanes)
    assert.ok(first)
    assert.equal(lanes.end(first, 'same', SLOW_MS), true)
  })

  test('and goes on to say so until a claim has brought less than there was room for', () => {
    const lanes = createLanes(256)
    lanes.room()
    addTo(lanes, 4, 'we_1')
    const [first, second, third] = takeAll(lanes)
    assert.ok(first && second && third)
    assert.equal(lanes.end(first, 'same', SLOW_MS), true)
    assert.equal(lanes.end(second, 'same', SLOW_MS), true)
    lanes.room()
    addTo(lanes, 1, 'we_1')
    assert.equal(lanes.end(third, 'same', SLOW_MS), false)
  })
})

describe('an endpoint that has been idle for a moment', () => {
  test('is asked for as much as it can take while more of it may be due', () => {
    const lanes = createLanes(256)
    for (let success = 1; success <= 6; success++) runOne(lanes, 'we_1', 'more')
    lanes.room()
    addTo(lanes, 10, 'we_1')
    for (const delivery of takeAll(lanes)) lanes.end(delivery, 'same', SLOW_MS)
    assert.equal(roomOf(lanes, 'we_1'), 10)
    assert.equal(roomOf(lanes, 'we_1'), 4)
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
    const lanes = createLanes(256)
    addTo(lanes, 1, 'we_1')
    const delivery = lanes.next()
    assert.ok(delivery)
    lanes.block(delivery, 30_000)
    lanes.end(delivery, 'same', 0)
    assert.deepEqual([roomOf(lanes, 'we_1'), roomOf(lanes, 'we_2')], [0, 4])
    now += 29_999
    lanes.sweep()
    assert.equal(roomOf(lanes, 'we_1'), 0)
    now += 1
    assert.equal(roomOf(lanes, 'we_1'), 4)
  })

  test('what was learnt of an endpoint is forgotten after ten minutes without a delivery', () => {
    const lanes = createLanes(256)
    runOne(lanes, 'we_1', 'less')
    now += 599_999
    lanes.sweep()
    assert.equal(roomOf(lanes, 'we_1'), 2)
    now += 1
    lanes.sweep()
    assert.equal(roomOf(lanes, 'we_1'), 4)
  })

  test('nothing is forgotten of an endpoint whose attempt has not ended', () => {
    const lanes = createLanes(256)
    addTo(lanes, 4, 'we_1')
    const [first] = takeAll(lanes)
    now += 600_000
    lanes.sweep()
    assert.equal(roomOf(lanes, 'we_1'), 0)
    assert.ok(first)
    lanes.end(first, 'same', SLOW_MS)
    assert.equal(roomOf(lanes, 'we_1'), 1)
  })

  test('endpoints that nobody knows yet take at most half of the slots, and with the slow ones three quarters, until they have answered', () => {
    const lanes = createLanes(256)
    runOne(lanes, 'we_known', 'more')
    for (let number = 0; number < 32; number++) addTo(lanes, 4, `we_${number}`)
    takeAll(lanes)
    assert.equal(lanes.inFlight, 128)
    assert.equal(lanes.room().room.endpoint, 0)
    assert.equal(roomOf(lanes, 'we_known') > 0, true, 'who is known to answer has room')
    // What hangs for a second is slow, and makes room for others who are not known.
    now += 1001
    assert.equal(lanes.room().room.endpoint, 4)
    for (let number = 32; number < 48; number++) addTo(lanes, 4, `we_${number}`)
    takeAll(lanes)
    assert.equal(lanes.inFlight, 192)
    now += 1001
    assert.equal(lanes.room().room.endpoint, 0, 'three quarters are enough for all who may be dead')
    assert.equal(roomOf(lanes, 'we_known') > 0, true)
  })
})
