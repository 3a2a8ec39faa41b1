import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRetryAfter } from '../../lib/base/retry-after.ts'
import { EXCERPT_MAX_BYTES, readExcerpt } from '../../lib/sender/body-excerpt.ts'

const NOW = Date.UTC(2026, 0, 1, 12)

test('readRetryAfter() accepts seconds and the three formats of an HTTP date, and nothing else', () => {
  const values: [value: string | undefined, expected: number | null][] = [
    ['0', 0],
    ['120', 120_000],
    ['0120', 120_000],
    ['9999999999', 9_999_999_999_000],
    ['9'.repeat(20), 1e23],
    ['9'.repeat(400), Number.POSITIVE_INFINITY],
    ['Thu, 01 Jan 2026 12:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 11:00:00 GMT', 0],
    ['Thursday, 01-Jan-26 12:00:30 GMT', 30_000],
    ['Thu Jan  1 12:00:30 2026', 30_000],
    ['Thu Jan 01 12:00:30 2026', 30_000],
    ['Thu Jan  1 12:00:30 2026, 5', null],
    ['Thursday, 01 Jan 2026 12:00:30', null],
    ['Thu Jan 31 12:00:30 2026 GMT', null],
    ['Soon, 01 Jan 2026 12:00:30 GMT', null],
    [undefined, null],
    ['', null],
    ['soon', null],
    ['-1', null],
    ['+1', null],
    ['1.5', null],
    ['1e3', null],
    ['0x10', null],
    ['2026-01-01T12:00:30Z', null],
    ['Thu, 01 Jan 2026 12:00:30', null],
    ['Thu, 01 Foo 2026 12:00:30 GMT', null],
    ['Thu, 01 Jan 2026 12:00:30 GMT, 5', null],
  ]
  for (const [value, expected] of values) assert.equal(readRetryAfter(value, undefined, NOW), expected, value)
})

test('readRetryAfter() compares a date with a valid Date of the same response', () => {
  const value = 'Thu, 01 Jan 2026 12:00:30 GMT'
  assert.equal(readRetryAfter(value, 'Thu, 01 Jan 2026 12:00:20 GMT', NOW), 10_000)
  assert.equal(readRetryAfter(value, 'nonsense', NOW), 30_000)
  assert.equal(readRetryAfter('5', 'Thu, 01 Jan 2026 12:00:20 GMT', NOW), 5000)
})

test('readExcerpt() keeps 4 KiB, cut between characters, however the bytes arrived', () => {
  const bytes = Buffer.from(`a${'é'.repeat(4000)}`)
  const expected = `a${'é'.repeat(2047)}`
  assert.equal(readExcerpt([bytes], undefined), expected)
  assert.equal(
    readExcerpt(
      [...bytes].map((byte) => Uint8Array.of(byte)),
      undefined,
    ),
    expected,
  )
  assert.equal(readExcerpt([Buffer.alloc(9000, 'b')], undefined).length, EXCERPT_MAX_BYTES)
})

test('readExcerpt() returns a string that PostgreSQL can store for any bytes', () => {
  const every = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  const excerpt = readExcerpt([every, Buffer.from('\u2028é🏺'), Uint8Array.of(0xed, 0xb0, 0x80)], undefined)
  assert.ok(excerpt.isWellFormed())
  assert.doesNotMatch(excerpt, /(?![\t\n\r])\p{Cc}/u)
  assert.match(excerpt, /\t\n.*\r/s)
  assert.match(excerpt, / !"#.*xyz/s)
  assert.match(excerpt, /\u2028é🏺/)
})

test('readExcerpt() is empty without a body and for an encoded body', () => {
  assert.equal(readExcerpt([], undefined), '')
  for (const encoding of ['gzip', 'br', 'zstd', 'gzip, identity', 'x']) {
    assert.equal(readExcerpt([Buffer.from('a')], encoding), '')
  }
  for (const encoding of ['identity', ' Identity ', '']) {
    assert.equal(readExcerpt([Buffer.from('a')], encoding), 'a')
  }
})
