import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createIds, idPrefixAt } from '../../lib/base/ids.ts'

test('idPrefixAt() gives the common beginning of the ids of a moment, sorted before each of these ids and after every earlier id', () => {
  const moment = Date.UTC(2026, 0, 1)
  const idAt = (time: number): string => createIds(() => time)('dlv')
  assert.ok(idPrefixAt('dlv', moment) < idAt(moment))
  assert.ok(idPrefixAt('dlv', moment) > idAt(moment - 1))
})

test('idPrefixAt() takes a time outside the range of ULIDs for the nearest time in the range', () => {
  assert.equal(idPrefixAt('dlv', -1), 'dlv_0000000000')
  assert.equal(idPrefixAt('dlv', Number.MAX_SAFE_INTEGER), 'dlv_7ZZZZZZZZZ')
  assert.equal(idPrefixAt('dlv', 0.9), 'dlv_0000000000')
})
