import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createRefusalPace } from '../../lib/api/refusal-pace.ts'

test('a hundred refusals go out at once', async ({ mock }) => {
  mock.method(performance, 'now', () => 0)
  mock.timers.enable({ apis: ['setTimeout'] })
  const pace = createRefusalPace(3000)
  let passed = 0
  for (let index = 0; index < 150; index++) void pace('peer').then(() => passed++)
  await nextTurn()
  assert.equal(passed, 100)
})

test('thousands of refusals at once all go out within their share of the deadline, and spaced out', async ({
  mock,
}) => {
  // The time is the test's, so that a busy machine changes nothing.
  let now = 0
  mock.method(performance, 'now', () => now)
  mock.timers.enable({ apis: ['setTimeout'] })
  const deadlineMs = 3000
  const pace = createRefusalPace(deadlineMs)
  const waits: number[] = []
  for (let index = 0; index < 3000; index++) {
    void pace(`peer ${index % 7}`).then(() => waits.push(now / deadlineMs))
  }
  while (waits.length < 3000 && now < deadlineMs) {
    now++
    mock.timers.tick(1)
    await nextTurn()
  }
  assert.equal(waits.length, 3000)
  const last = Math.max(...waits)
  assert.ok(last < 0.75, `the last one waited for ${last.toFixed(2)} of the deadline`)
  const early = waits.filter((wait) => wait < 0.25).length
  assert.ok(early < 2000, `${early} went out in the first quarter`)
})
