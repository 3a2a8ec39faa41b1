import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createIds, type IdKind, idPrefixAt, readIds } from '../../lib/base/ids.ts'

test('idPrefixAt() returns the common prefix of ids created at a time, which sorts before them and after all earlier ids', () => {
  const moment = Date.UTC(2026, 0, 1)
  const idAt = (time: number): string => createIds(() => time)('dlv')
  assert.ok(idPrefixAt('dlv', moment) < idAt(moment))
  assert.ok(idPrefixAt('dlv', moment) > idAt(moment - 1))
})

test('idPrefixAt() uses the nearest possible time if it is outside the range of ULIDs', () => {
  assert.equal(idPrefixAt('dlv', -1), 'dlv_0000000000')
  assert.equal(idPrefixAt('dlv', Number.MAX_SAFE_INTEGER), 'dlv_7ZZZZZZZZZ')
  assert.equal(idPrefixAt('dlv', 0.9), 'dlv_0000000000')
})

test('readIds() calls the host only if an id is needed, and returns valid ids unchanged', () => {
  const asked: IdKind[] = []
  const ids = readIds((kind) => {
    asked.push(kind)
    return `${kind}_crm-1_A`
  }, Date.now)
  assert.deepEqual(asked, [])
  assert.equal(ids('lead'), 'lead_crm-1_A')
  assert.deepEqual(asked, ['lead'])
  const ulid = '01M819PM545CBJ4FSPK7C91TQ4'
  assert.equal(readIds((kind) => `${kind}_${ulid}`, Date.now)('aud'), `aud_${ulid}`)
  assert.equal(readIds(undefined, Date.now), createIds())
})

test("readIds() rejects an id that can't be used for paging, naming the option and the id", () => {
  const refused: readonly [IdKind, unknown, RegExp][] = [
    ['lead', 'abc', /must make ids of lead_ and 1 to 59 .*: it made 'abc'$/],
    ['lead', 'cli_1', /lead_/],
    ['cli', 'cli_', /cli_/],
    ['cli', 'cli_a b', /cli_/],
    ['cli', `cli_${'1'.repeat(60)}`, /it made 'cli_1{46}…'$/],
    ['cli', 7, /it made 7$/],
    ['cli', undefined, /it made undefined$/],
    ['cli', Promise.resolve('cli_1'), /it made an object$/],
    ['aud', 'aud_1', /must make ids of aud_ and a ULID, .*: it made 'aud_1'$/],
  ]
  for (const [kind, id, about] of refused) {
    assert.throws(
      () => readIds(() => id as string, Date.now)(kind),
      (error) => {
        assert.ok(error instanceof TypeError)
        assert.match(error.message, /^Option 'ids' must make /)
        assert.match(error.message, about)
        return true
      },
    )
  }
})

test("readIds() leaves ids of requests to the handler, which don't need a prefix", () => {
  assert.equal(readIds(() => 'trace-7', Date.now)('req'), 'trace-7')
})
