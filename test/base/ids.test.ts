import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createIds, firstIdAt } from '../../lib/base/ids.ts'

test('firstIdAt() sorts before every id of the moment and after every earlier id', () => {
  const moment = Date.UTC(2026, 0, 1)
  const idAt = (time: number): string => createIds(() => time)('dlv')
  assert.ok(firstIdAt('dlv', moment) < idAt(moment))
  assert.ok(firstIdAt('dlv', moment) > idAt(moment - 1))
})

test('firstIdAt() takes a time that no ULID can hold for the nearest one that can', () => {
  assert.equal(firstIdAt('dlv', -1), 'dlv_0000000000')
  assert.equal(firstIdAt('dlv', Number.MAX_SAFE_INTEGER), 'dlv_7ZZZZZZZZZ')
  assert.equal(firstIdAt('dlv', 0.9), 'dlv_0000000000')
})
