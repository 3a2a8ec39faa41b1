import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFakeClock } from '../../lib/testing.ts'
import { createHost, ORGANIZATION } from './_host.ts'

const DAY_MS = 24 * 60 * 60 * 1000

test('createFakeClock() stands still until it is moved', () => {
  const clock = createFakeClock('2026-03-14T09:26:53.589Z')
  assert.equal(clock(), Date.UTC(2026, 2, 14, 9, 26, 53, 589))
  clock.advance(1000)
  assert.equal(new Date(clock()).toISOString(), '2026-03-14T09:26:54.589Z')
  clock.set(new Date(0))
  assert.equal(clock(), 0)
  assert.ok(Math.abs(createFakeClock()() - Date.now()) < 60_000)
})

test("createFakeClock() rejects an invalid time and can't be advanced backwards", () => {
  const clock = createFakeClock(0)
  for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY])
    assert.throws(() => clock.advance(ms), RangeError)
  assert.throws(() => clock.set('yesterday'), RangeError)
  assert.throws(() => createFakeClock('yesterday'), RangeError)
  assert.equal(clock(), 0)
})

test("with a fake clock, you don't have to wait for the window of an idempotency key", async (t) => {
  const { clock, platform } = createHost(t)
  const create = () => platform.clients.create(ORGANIZATION, { name: 'Atlas', idempotencyKey: 'form-1' })
  const first = await create()
  clock.advance(7 * DAY_MS - 1)
  assert.deepEqual(await create(), first)
  clock.advance(1)
  assert.notEqual((await create()).id, first.id)
})
