import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createEntrance } from '../../lib/api/entrance.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'

/** Asks for a number of requests of a peer at once, and counts those that are in. */
function crowd(enter: ReturnType<typeof createEntrance>, peer: string, count: number): { in: number } {
  const entered = { in: 0 }
  for (let asked = 0; asked < count; asked++) {
    const wait = enter(() => peer)
    if (wait) void wait.then(() => entered.in++)
    else entered.in++
  }
  return entered
}

test('a thousand unknown callers at once enter a few in each turn of the event loop', async () => {
  const entered = crowd(createEntrance(), 'one', 1000)
  assert.ok(entered.in <= 8, `${entered.in} entered at once`)
  for (let turns = 1; turns < 200; turns++) {
    await turn()
    assert.ok(entered.in <= 8 * (turns + 2), `${entered.in} entered in ${turns} turns`)
  }
  assert.equal(entered.in, 1000)
})

test('an unknown caller of another peer enters in the next turns, before the crowd', async () => {
  const enter = createEntrance()
  const first = crowd(enter, 'one', 1000)
  const second = crowd(enter, 'two', 1)
  for (let turns = 0; turns < 3; turns++) await turn()
  assert.equal(second.in, 1)
  assert.ok(first.in < 40, `${first.in} of the crowd entered`)
})

test('few unknown callers enter without a wait, turn after turn', async () => {
  const enter = createEntrance()
  for (let turns = 0; turns < 5; turns++) {
    assert.equal(crowd(enter, 'one', 4).in, 4)
    await turn()
    await turn()
  }
})

test("the host's own pages, in front of which the API is mounted, wait for no turn of an unknown caller", async () => {
  let asked = 0
  const peerAddress = (): string => `peer ${asked++}`
  const api = createBusinessApi(createMemoryStore(), { peerAddress, logger: false })
  const get = (path: string): Promise<Response> => api(new Request(`http://localhost${path}`))
  const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => get(`/pages/${index}`)))
  assert.ok(answers.every(({ status }) => status === 404))
  assert.equal(asked, 0)
})
