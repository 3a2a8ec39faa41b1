import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFairQueue, type FairQueue } from '../../lib/base/fair-queue.ts'

interface Item {
  readonly name: string
}

/** Adds items by name. The first letter is the group. */
function fill(...names: readonly string[]): { queue: FairQueue<string, Item>; items: Map<string, Item> } {
  const queue = createFairQueue<string, Item>()
  const items = new Map(names.map((name) => [name, { name }]))
  for (const item of items.values()) queue.add(item.name.charAt(0), item)
  return { queue, items }
}

function drain(queue: FairQueue<string, Item>): string[] {
  const names: string[] = []
  for (let item = queue.shift(); item; item = queue.shift()) names.push(item.name)
  return names
}

test('shift() takes turns between groups, and returns the items of each in insertion order', () => {
  const { queue } = fill('a1', 'a2', 'a3', 'b1', 'c1', 'c2')
  assert.equal(queue.size, 6)
  assert.deepEqual(drain(queue), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  assert.equal(queue.size, 0)
  assert.equal(queue.countOf('a'), 0)
})

test("shift() skips a group that isn't ready, which keeps its turn", () => {
  const { queue } = fill('a1', 'a2', 'b1', 'b2')
  assert.equal(queue.shift((group) => group !== 'a')?.name, 'b1')
  assert.equal(
    queue.shift(() => false),
    undefined,
  )
  assert.deepEqual(drain(queue), ['a1', 'b2', 'a2'])
})

test('remove() removes an item once, wherever it is', () => {
  const { queue, items } = fill('a1', 'a2', 'a3', 'b1')
  for (const name of ['a2', 'a2', 'b1']) queue.remove(name.charAt(0), items.get(name) ?? { name })
  assert.equal(queue.size, 2)
  assert.deepEqual(drain(queue), ['a1', 'a3'])
})

test('shiftLongest() removes the oldest item of the largest group, if it is large enough', () => {
  const { queue } = fill('a1', 'b1', 'b2', 'b3', 'c1', 'c2')
  assert.equal(queue.shiftLongest(4), undefined)
  assert.equal(queue.shiftLongest(3)?.name, 'b1')
  assert.equal(queue.size, 5)
  assert.equal(queue.countOf('b'), 2)
  assert.equal(createFairQueue<string, Item>().shiftLongest(), undefined)
})
