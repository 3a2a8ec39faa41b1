import assert from 'node:assert/strict'
import { test } from 'node:test'
import { API_KEY_PATTERN, digestApiKey, generateApiKey, readApiKey } from '../../lib/access/api-keys.ts'
import { makeOlderKey } from '../_older-key.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A key whose secret has the value 1. */
const KNOWN = `bapi_live_${'0'.repeat(42)}1`

/** Calculates CRC32 bit by bit and converts it to base62, to compare with the library's result. */
function checksumOf(text: string, mark = 0): string {
  let crc = 0xffffffff
  for (const byte of Buffer.from(text)) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  }
  let rest = (crc ^ 0xffffffff ^ mark) >>> 0
  let digits = ''
  for (let digit = 0; digit < 6; digit++) {
    digits = BASE62.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** The mark in the checksum of keys with a slot. */
const MARK = 0x5107ab1e

test('generateApiKey() returns <prefix>_live_, 2 digits of slot, 41 of secret and 6 of the marked CRC32 of everything before', () => {
  for (const prefix of ['bapi', 'a', 'acme1234567890xy']) {
    for (const [slot, digits] of [
      [0, '00'],
      [61, '0z'],
      [62, '10'],
      [1023, 'GV'],
    ] as const) {
      const key = generateApiKey(prefix, slot)
      const [, secret = '', checksum] =
        new RegExp(`^${prefix}_live_(${digits}[0-9A-Za-z]{41})([0-9A-Za-z]{6})$`).exec(key) ?? []
      assert.equal(checksum, checksumOf(`${prefix}_live_${secret}`, MARK))
    }
  }
})

test('generateApiKey() never returns the same key twice and uses all digits of the secret', () => {
  const keys = Array.from({ length: 2000 }, () => generateApiKey('bapi', 0))
  assert.equal(new Set(keys).size, 2000)
  // 2^240 is about 3.3 times 62^40, so the first digit is from 0 to 3 and the others can be anything.
  const first = 'bapi_live_00'.length
  for (let position = first; position < first + 41; position++) {
    const seen = new Set(keys.map((key) => key.charAt(position))).size
    assert.ok(position === first ? seen > 2 : seen > 50, `${seen} at ${position}`)
  }
})

test('readApiKey() returns the slot of a key from generateApiKey(), but none for an older key', () => {
  for (let slot = 0; slot < 1024; slot++) assert.equal(readApiKey(generateApiKey('bapi', slot)), slot)
  for (let round = 0; round < 1000; round++) assert.equal(readApiKey(makeOlderKey()), null)
})

test("readApiKey() rejects a key with a slot that doesn't exist", () => {
  for (const [digits, slot] of [
    ['GV', 1023],
    ['GW', undefined],
    ['zz', undefined],
  ] as const) {
    const unchecked = `bapi_live_${digits}${'0'.repeat(41)}`
    assert.equal(readApiKey(unchecked + checksumOf(unchecked, MARK)), slot)
  }
})

test('readApiKey() accepts an older key whose checksum was calculated by hand', () => {
  // CRC32 0x9c799953, calculated with another tool.
  assert.equal(checksumOf(KNOWN), '2rf8IF')
  assert.equal(readApiKey(`${KNOWN}2rf8IF`), null)
})

test('readApiKey() rejects all keys with one character changed, wherever it is', () => {
  for (const key of [generateApiKey('bapi', 1000), makeOlderKey()]) {
    for (let position = 0; position < key.length; position++) {
      for (const character of `${BASE62}_- é`) {
        if (character === key.charAt(position)) continue
        const changed = key.slice(0, position) + character + key.slice(position + 1)
        assert.equal(readApiKey(changed), undefined, `${character} at ${position}`)
      }
    }
  }
})

test('readApiKey() rejects all keys with two adjacent characters swapped, or one missing or doubled', () => {
  for (const key of [generateApiKey('bapi', 1000), makeOlderKey()]) {
    for (let position = 0; position < key.length; position++) {
      const [before, one, two, after] = [
        key.slice(0, position),
        key.charAt(position),
        key.charAt(position + 1),
        key.slice(position + 2),
      ]
      if (two !== '' && one !== two) assert.equal(readApiKey(before + two + one + after), undefined)
      assert.equal(readApiKey(before + two + after), undefined)
      assert.equal(readApiKey(before + one + one + two + after), undefined)
    }
  }
})

test('readApiKey() rejects a string that only resembles a key', () => {
  const key = generateApiKey('bapi', 0)
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
    assert.equal(readApiKey(text), undefined, JSON.stringify(text))
  }
})

test("API_KEY_PATTERN finds keys with any prefix in a text, and doesn't match the text around them", () => {
  const KNOWN_KEY = generateApiKey('bapi', 0)
  assert.match(generateApiKey('bapi', 0), API_KEY_PATTERN)
  assert.match(generateApiKey('a234567890123456', 0), API_KEY_PATTERN)
  assert.equal(API_KEY_PATTERN.exec(`key="${KNOWN_KEY}";`)?.[0], KNOWN_KEY)
  assert.doesNotMatch(`${generateApiKey('bapi', 0)}0`, API_KEY_PATTERN)
})

test('digestApiKey() returns SHA-256 in lowercase hex', () => {
  // Example from FIPS 180-2.
  assert.equal(digestApiKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
