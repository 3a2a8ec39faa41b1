import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { createDeliverySlots } from '../../lib/delivery/slots.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createWebhookSender } from '../../lib/webhooks.ts'

test('a single loop can use all slots', () => {
  const slots = createDeliverySlots()
  let used = 0
  const use = (): number => used
  slots.join(use)
  const free = (): number => slots.free(use)
  assert.equal(slots.concurrency, 256)
  assert.equal(free(), 256)
  used = 200
  assert.equal(free(), 56)
})

test('loops never exceed the total number of slots, and each keeps half of an equal share', () => {
  const slots = createDeliverySlots(120)
  const used = [0, 0, 0]
  const uses = used.map((_, loop) => () => used[loop] ?? 0)
  for (const use of uses) slots.join(use)
  const take = (loop: number): void => {
    used[loop] = (used[loop] ?? 0) + Math.max(0, slots.free(uses[loop] ?? (() => 0)))
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

test("a loop has a share while it's running and leaves it to the others when it stops or has run once", async () => {
  const slots = createDeliverySlots(120)
  const sender = createWebhookSender()
  const loops = [1, 2].map(() => createDeliveryLoop(createMemoryStore(), sender, { concurrency: slots }))
  const free = (): number => slots.free(() => 0)
  try {
    for (let turn = 0; turn < 2; turn++) {
      assert.equal(free(), 120)
      for (const loop of loops) loop.start()
      assert.equal(free(), 80)
      for (const loop of loops) await loop.stop()
    }
    const once = loops.map((loop) => loop.runOnce())
    assert.equal(free(), 80)
    await Promise.all(once)
    assert.equal(free(), 120)
  } finally {
    for (const loop of loops) await loop.stop()
    await sender.close()
  }
})

test('invalid numbers are rejected', () => {
  for (const concurrency of [0, -1, 1.5, Number.NaN]) {
    assert.throws(() => createDeliverySlots(concurrency), RangeError)
  }
})
