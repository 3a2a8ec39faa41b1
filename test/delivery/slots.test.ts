import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeliverySlots } from '../../lib/delivery/slots.ts'

test('the slots of a single loop are all for that loop', () => {
  const slots = createDeliverySlots()
  let used = 0
  const free = slots.join(() => used)
  assert.equal(slots.concurrency, 256)
  assert.equal(free(), 256)
  used = 200
  assert.equal(free(), 56)
})

test('loops never use more slots together than there are, and each keeps half of an equal part', () => {
  const slots = createDeliverySlots(120)
  const used = [0, 0, 0]
  const free = used.map((_, loop) => slots.join(() => used[loop] ?? 0))
  const take = (loop: number): void => {
    used[loop] = (used[loop] ?? 0) + Math.max(0, free[loop]?.() ?? 0)
  }
  take(0)
  assert.deepEqual(used, [80, 0, 0])
  take(1)
  assert.deepEqual(used, [80, 20, 0])
  take(2)
  assert.deepEqual(used, [80, 20, 20])
  for (let loop = 0; loop < 3; loop++) take(loop)
  assert.deepEqual(used, [80, 20, 20])
  used[0] = 20
  take(1)
  assert.deepEqual(used, [20, 80, 20])
})

test('numbers that cannot be used are refused', () => {
  for (const concurrency of [0, -1, 1.5, Number.NaN]) {
    assert.throws(() => createDeliverySlots(concurrency), RangeError)
  }
})
