import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  API_KEY_PATTERN,
  digestApiKey,
  generateApiKey,
  isWellFormedApiKey,
} from '../../lib/access/api-keys.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** The secret of value 1. */
const KNOWN = `bapi_live_${'0'.repeat(42)}1`

/** CRC32 bit by bit and base62 by hand, to hold the library's against. */
function checksumOf(text: string): string {
  let crc = 0xffffffff
  for (const byte of Buffer.from(text)) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  }
  let rest = (crc ^ 0xffffffff) >>> 0
  let digits = ''
  for (let digit = 0; digit < 6; digit++) {
    digits = BASE62.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

test('generateApiKey() makes <prefix>_live_, 43 digits of secret and 6 of CRC32 over the text before', () => {
  for (const prefix of ['bapi', 'a', 'acme1234567890xy']) {
    const key = generateApiKey(prefix)
    const [, secret = '', checksum] =
      new RegExp(`^${prefix}_live_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$`).exec(key) ?? []
    assert.equal(checksum, checksumOf(`${prefix}_live_${secret}`))
  }
})

test('generateApiKey() never makes the same key twice, and fills every digit of the secret', () => {
  const keys = Array.from({ length: 2000 }, () => generateApiKey('bapi'))
  assert.equal(new Set(keys).size, 2000)
  // 2^256 is about 7.8 times 62^42: the first digit is 0 to 7, every later digit any of the 62.
  for (let position = 'bapi_live_'.length; position < 'bapi_live_'.length + 43; position++) {
    const seen = new Set(keys.map((key) => key.charAt(position))).size
    assert.ok(position === 'bapi_live_'.length ? seen > 4 : seen > 50, `${seen} at ${position}`)
  }
})

test('isWellFormedApiKey() accepts a key of generateApiKey()', () => {
  for (let round = 0; round < 1000; round++) assert.ok(isWellFormedApiKey(generateApiKey('bapi')))
})

test('isWellFormedApiKey() accepts a key whose checksum was worked out by hand', () => {
  // CRC32 0x9c799953, worked out with another tool.
  assert.equal(checksumOf(KNOWN), '2rf8IF')
  assert.ok(isWellFormedApiKey(`${KNOWN}2rf8IF`))
})

test('isWellFormedApiKey() refuses every key with one character changed, anywhere', () => {
  const key = generateApiKey('bapi')
  for (let position = 0; position < key.length; position++) {
    for (const character of `${BASE62}_- é`) {
      if (character === key.charAt(position)) continue
      const changed = key.slice(0, position) + character + key.slice(position + 1)
      assert.equal(isWellFormedApiKey(changed), false, `${character} at ${position}`)
    }
  }
})

test('isWellFormedApiKey() refuses every key with two neighbours swapped or a character lost or doubled', () => {
  const key = generateApiKey('bapi')
  for (let position = 0; position < key.length; position++) {
    const [before, one, two, after] = [
      key.slice(0, position),
      key.charAt(position),
      key.charAt(position + 1),
      key.slice(position + 2),
    ]
    if (two !== '' && one !== two) assert.equal(isWellFormedApiKey(before + two + one + after), false)
    assert.equal(isWellFormedApiKey(before + two + after), false)
    assert.equal(isWellFormedApiKey(before + one + one + two + after), false)
  }
})

test('isWellFormedApiKey() refuses a text that only resembles a key', () => {
  const key = generateApiKey('bapi')
  const unchecked = 'bapi_test_'.padEnd(53, '0')
  for (const text of [
    '',
    'bapi_live_',
    ` ${key}`,
    `${key} `,
    `${key}\n`,
    key.toUpperCase(),
    `${key}${key}`,
    `Bearer ${key}`,
    unchecked + checksumOf(unchecked),
  ]) {
    assert.equal(isWellFormedApiKey(text), false, JSON.stringify(text))
  }
})

test('API_KEY_PATTERN finds keys of every prefix in a text, and no neighbouring text', () => {
  const KNOWN_KEY = generateApiKey('bapi')
  assert.match(generateApiKey('bapi'), API_KEY_PATTERN)
  assert.match(generateApiKey('a234567890123456'), API_KEY_PATTERN)
  assert.equal(API_KEY_PATTERN.exec(`key="${KNOWN_KEY}";`)?.[0], KNOWN_KEY)
  assert.doesNotMatch(`${generateApiKey('bapi')}0`, API_KEY_PATTERN)
})

test('digestApiKey() is SHA-256 in lower-case hex', () => {
  // The example of FIPS 180-2.
  assert.equal(digestApiKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
