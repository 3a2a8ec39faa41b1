import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { BusinessApiError, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createSecretSealer, generateSigningSecret } from '../../lib/webhooks/secret-sealing.ts'

const SECRET = 'whsec_é🏺.not-random.so-that-it-is-found-in-any-text'
const REF = { organizationId: 'org_1', endpointId: 'we_1' }
const KEY = randomBytes(32)
const OTHER_KEY = randomBytes(32)

/**
 * Asserts that a call throws `secret_unavailable` with a matching message and that neither the secret nor a
 * key appears anywhere.
 */
function assertUnavailable(call: () => unknown, about: RegExp): void {
  assert.throws(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, SECRET_UNAVAILABLE)
    assert.match(error.message, about)
    assertSilent(error)
    return true
  })
}

/** Asserts that an error contains neither the secret nor a key in its message, stack, cause or any property. */
function assertSilent(error: unknown): void {
  const text = inspect(error, { depth: 10, showHidden: true })
  assert.doesNotMatch(text, /whsec_|not-random/)
  for (const key of [KEY, OTHER_KEY]) {
    for (const encoding of ['hex', 'base64', 'base64url'] as const) {
      assert.equal(text.includes(key.toString(encoding).slice(0, 12)), false)
    }
  }
}

/** Changes the character at an index to another valid one. */
function change(text: string, index: number): string {
  const other = text[index] === 'A' ? 'B' : 'A'
  return text.slice(0, index) + other + text.slice(index + 1)
}

describe('generateSigningSecret()', () => {
  test('generateSigningSecret() returns whsec_ and 32 random bytes in standard base64, different each time', () => {
    const secrets = Array.from({ length: 100 }, generateSigningSecret)
    assert.equal(new Set(secrets).size, 100)
    for (const secret of secrets) {
      assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
      assert.equal(Buffer.from(secret.slice('whsec_'.length), 'base64').byteLength, 32)
    }
  })
})

describe('sealing with a key', () => {
  const sealer = createSecretSealer({ secretKeys: [KEY] })

  test('a sealed secret can be opened again', () => {
    for (const secret of [SECRET, generateSigningSecret(), '', 'plain.whsec', 'x'.repeat(10_000)]) {
      assert.equal(sealer.unseal(sealer.seal(secret, REF), REF), secret)
    }
  })

  test('the sealed form is a string with the version and the key’s id that shows nothing of the secret', () => {
    const sealed = sealer.seal(SECRET, REF)
    assert.match(sealed, /^v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+\.[\w-]{22}$/)
    const [, , , ciphertext = ''] = sealed.split('.')
    assert.equal(Buffer.from(ciphertext, 'base64url').byteLength, Buffer.byteLength(SECRET))
    assert.equal(Buffer.from(ciphertext, 'base64url').includes('not-random'), false)
    assert.equal(sealed.includes(KEY.toString('base64url').slice(0, 8)), false)
  })

  test('the same secret is sealed with a different nonce each time', () => {
    const nonces = Array.from({ length: 100 }, () => sealer.seal(SECRET, REF).split('.')[2])
    assert.equal(new Set(nonces).size, 100)
  })

  test("a sealed secret can't be opened for another endpoint or organization, even after it was opened for its own", () => {
    const sealed = sealer.seal(SECRET, REF)
    assert.equal(sealer.unseal(sealed, REF), SECRET)
    const others = [
      { ...REF, endpointId: 'we_2' },
      { ...REF, organizationId: 'org_2' },
      { organizationId: 'we_1', endpointId: 'org_1' },
      { organizationId: 'org_1","we_1', endpointId: '' },
      { organizationId: 'org_', endpointId: '1we_1' },
    ]
    for (const other of others) {
      assertUnavailable(() => sealer.unseal(sealed, other), /sealed for another endpoint/)
    }
  })

  test("a sealed secret with any character changed can't be opened", () => {
    const sealed = sealer.seal(SECRET, REF)
    assert.equal(sealer.unseal(sealed, REF), SECRET)
    for (let index = 0; index < sealed.length; index++) {
      assertUnavailable(
        () => sealer.unseal(change(sealed, index), REF),
        /^Cannot open the signing secret of endpoint we_1 because /,
      )
    }
  })

  test("a sealed secret with changed padding bits at the end can't be opened", () => {
    // 22 digits are 132 bits, but a tag has 128. Without care, 16 strings would be the same tag.
    const sealed = sealer.seal(SECRET, REF)
    const spare = { A: 'B', Q: 'R', g: 'h', w: 'x' }[sealed.slice(-1)]
    assert.ok(spare)
    assertUnavailable(() => sealer.unseal(sealed.slice(0, -1) + spare, REF), /does not open it/)
  })

  test("a sealed secret that was cut, extended or combined from two can't be opened", () => {
    const parts = sealer.seal(SECRET, REF).split('.')
    const [version = '', keyId = '', nonce = '', ciphertext = '', tag = ''] = parts
    const other = sealer.seal('whsec_other', REF).split('.')
    const broken = [
      '',
      'v1',
      SECRET,
      'v1.....',
      parts.slice(0, 4).join('.'),
      [...parts, ''].join('.'),
      [...parts, tag].join('.'),
      `${parts.join('.')}\n`,
      ` ${parts.join('.')}`,
      ['v2', keyId, nonce, ciphertext, tag].join('.'),
      // GCM itself would accept a tag of four bytes.
      [version, keyId, nonce, ciphertext, tag.slice(0, 6)].join('.'),
      [version, keyId, nonce, ciphertext.slice(4), tag].join('.'),
      [version, keyId, nonce, '', tag].join('.'),
      [version, keyId, nonce, `${ciphertext}AAAA`, tag].join('.'),
      [version, keyId, nonce, ciphertext, other[4]].join('.'),
      [version, keyId, other[2], ciphertext, tag].join('.'),
      [version, keyId, nonce, other[3], tag].join('.'),
      [version, keyId, nonce, ciphertext, `${tag}==`].join('.'),
    ]
    for (const sealed of broken)
      assertUnavailable(() => sealer.unseal(sealed, REF), /because (its sealed form|key)/)
  })

  test('sealing continues to work if the host clears a key afterwards', () => {
    const bytes = randomBytes(32)
    const own = createSecretSealer({ secretKeys: [bytes] })
    const sealed = own.seal(SECRET, REF)
    bytes.fill(0)
    assert.equal(own.unseal(sealed, REF), SECRET)
    assert.equal(own.seal(SECRET, REF).split('.')[1], sealed.split('.')[1])
  })
})

describe('sealing headers', () => {
  const sealer = createSecretSealer({ secretKeys: [KEY] })
  const HEADERS = { Authorization: `Bearer ${SECRET}`, 'X-Tenant': '7', constructor: 'é 🏺 " \\' }

  test('headers can be opened again, and their names are next to the sealed form', () => {
    const sealed = sealer.sealHeaders(HEADERS, REF)
    assert.deepEqual(sealed.headerNames, Object.keys(HEADERS))
    assert.match(sealed.sealedHeaders ?? '', /^v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+\.[\w-]{22}$/)
    assert.deepEqual(sealer.unsealHeaders(sealed, REF), HEADERS)
  })

  test('no headers means no sealed form, and no key is needed', () => {
    for (const one of [sealer, createSecretSealer()]) {
      const sealed = one.sealHeaders({}, REF)
      assert.deepEqual(sealed, { headerNames: [], sealedHeaders: null })
      assert.deepEqual(one.unsealHeaders(sealed, REF), {})
    }
  })

  test("headers can't be opened for another endpoint, with other names, or as a signing secret", () => {
    const sealed = sealer.sealHeaders(HEADERS, REF)
    assert.deepEqual(sealer.unsealHeaders(sealed, REF), HEADERS)
    const about =
      /^Cannot open the headers of endpoint we_\w+ because key .* does not open it: it was changed/
    assertUnavailable(() => sealer.unsealHeaders(sealed, { ...REF, endpointId: 'we_2' }), about)
    assertUnavailable(() => sealer.unsealHeaders(sealed, { ...REF, organizationId: 'org_2' }), about)
    for (const headerNames of [
      [],
      ['Authorization'],
      sealed.headerNames.toReversed(),
      [...sealed.headerNames, 'X'],
    ]) {
      assertUnavailable(() => sealer.unsealHeaders({ ...sealed, headerNames }, REF), about)
    }
    assertUnavailable(() => sealer.unseal(sealed.sealedHeaders ?? '', REF), /^Cannot open the signing secret/)
    const secret = { headerNames: [], sealedHeaders: sealer.seal('{}', REF) }
    assertUnavailable(() => sealer.unsealHeaders(secret, REF), about)
  })

  test('headers are sealed with the first key and can be opened with any of them', () => {
    const old = createSecretSealer({ secretKeys: [OTHER_KEY] })
    const both = createSecretSealer({ secretKeys: [KEY, OTHER_KEY] })
    assert.deepEqual(both.unsealHeaders(old.sealHeaders(HEADERS, REF), REF), HEADERS)
    assert.deepEqual(sealer.unsealHeaders(both.sealHeaders(HEADERS, REF), REF), HEADERS)
    assertUnavailable(
      () => sealer.unsealHeaders(old.sealHeaders(HEADERS, REF), REF),
      /is not among the 'secretKeys'$/,
    )
  })

  test("without a key headers are stored as plain text if that's allowed, and rejected otherwise", () => {
    const open = createSecretSealer({ allowPlaintextSecrets: true })
    const sealed = open.sealHeaders(HEADERS, REF)
    assert.equal(sealed.sealedHeaders, `plain.${JSON.stringify(HEADERS)}`)
    assert.deepEqual(open.unsealHeaders(sealed, REF), HEADERS)
    assertUnavailable(
      () => createSecretSealer().sealHeaders(HEADERS, REF),
      /^Cannot store the headers because /,
    )
  })
})

describe('the ring of keys', () => {
  const sealedBefore = createSecretSealer({ secretKeys: [OTHER_KEY] }).seal(SECRET, REF)

  test('a new first key seals, and the old one still opens', () => {
    const rotated = createSecretSealer({ secretKeys: [KEY, OTHER_KEY] })
    assert.equal(rotated.unseal(sealedBefore, REF), SECRET)
    const sealedAfter = rotated.seal(SECRET, REF)
    assert.equal(createSecretSealer({ secretKeys: [KEY] }).unseal(sealedAfter, REF), SECRET)
    assert.notEqual(sealedAfter.split('.')[1], sealedBefore.split('.')[1])
  })

  test("without its key a secret can't be opened, and the message names the missing key", () => {
    const [, keyId] = sealedBefore.split('.')
    const about = new RegExp(`endpoint we_1 because key ${keyId} is not among the 'secretKeys'$`)
    for (const secretKeys of [[KEY], []]) {
      assertUnavailable(() => createSecretSealer({ secretKeys }).unseal(sealedBefore, REF), about)
    }
  })

  test('a key is the same as bytes, hex, base64 and base64url, with or without padding', () => {
    // Bytes whose base64 has the characters that differ between the two alphabets.
    const bytes = Buffer.alloc(32, 0xfb).fill(0xff, 30)
    const sealed = createSecretSealer({ secretKeys: [bytes] }).seal(SECRET, REF)
    const forms = [
      new Uint8Array(bytes),
      bytes.toString('hex'),
      bytes.toString('hex').toUpperCase(),
      bytes.toString('base64'),
      bytes.toString('base64').replace('=', ''),
      bytes.toString('base64url'),
      `${bytes.toString('base64url')}=`,
    ]
    for (const form of forms) {
      assert.equal(createSecretSealer({ secretKeys: [form] }).unseal(sealed, REF), SECRET)
    }
  })

  test('a key of just digits and letters is hex if it has 64 characters, and base64 otherwise', () => {
    const digits = '0123456789abcdef'.repeat(4)
    const sealed = createSecretSealer({ secretKeys: [digits] }).seal(SECRET, REF)
    const bytes = Buffer.from(digits, 'hex')
    assert.equal(createSecretSealer({ secretKeys: [bytes] }).unseal(sealed, REF), SECRET)
  })

  test('an invalid key immediately throws a TypeError with the key’s position but not the key', () => {
    const base64 = KEY.toString('base64')
    const refused: unknown[] = [
      '',
      KEY.subarray(1),
      Buffer.concat([KEY, KEY]),
      KEY.toString('hex').slice(2),
      `${KEY.toString('hex')}00`,
      KEY.subarray(1).toString('base64'),
      Buffer.concat([KEY, KEY]).toString('base64'),
      `${base64}\n`,
      ` ${base64}`,
      `${base64}=`,
      `${base64.slice(0, 10)} ${base64.slice(10)}`,
      `${base64.slice(0, 10)}*${base64.slice(10)}`,
      // The two alphabets mixed, and spare bits that no encoder sets.
      `+_${'A'.repeat(41)}`,
      `${'A'.repeat(42)}B`,
      KEY.buffer,
      [...KEY],
      32,
      null,
      undefined,
    ]
    for (const key of refused) {
      assert.throws(
        () => createSecretSealer({ secretKeys: [OTHER_KEY, key as string] }),
        (error: unknown) => {
          assert.ok(error instanceof TypeError, inspect(error))
          assert.match(error.message, /^Option 'secretKeys\[1\]' must be 32 bytes/)
          assertSilent(error)
          return true
        },
      )
    }
    const unset = process.env.BUSINESS_API_TEST_UNSET as string
    assert.throws(
      () => createSecretSealer({ secretKeys: [unset] }),
      /'secretKeys\[0\]' .*: current value is undefined, is the environment variable set\?$/,
    )
    const single = base64 as unknown
    assert.throws(
      () => createSecretSealer({ secretKeys: single as string[] }),
      /^TypeError: Option 'secretKeys' must be a list of keys$/,
    )
  })
})

describe('a weak key', () => {
  test('whose bytes are all the same throws a TypeError without the key, in every form', () => {
    for (const byte of [0, 1, 7, 0xaa, 0xff]) {
      const bytes = Buffer.alloc(32, byte)
      const forms = [bytes, new Uint8Array(bytes), bytes.toString('hex'), bytes.toString('base64')]
      for (const form of forms) {
        assert.throws(() => createSecretSealer({ secretKeys: [KEY, form] }), {
          name: 'TypeError',
          message:
            "Cannot use option 'secretKeys[1]' because its 32 bytes are all the same: make a random key: openssl rand -base64 32",
        })
      }
    }
    createSecretSealer({ secretKeys: [Buffer.alloc(32).fill(1, 31)] })
  })
})

describe('without a key', () => {
  test('nothing is sealed unless plain text is allowed', () => {
    for (const options of [undefined, {}, { secretKeys: [] }, { allowPlaintextSecrets: false }]) {
      const call = () => createSecretSealer(options).seal(SECRET, REF)
      assertUnavailable(call, /^Cannot store the signing secret because option 'secretKeys' is empty/)
    }
  })

  test('if plain text is allowed, the secret is stored as plain text and says so', () => {
    const sealer = createSecretSealer({ allowPlaintextSecrets: true })
    assert.equal(sealer.seal(SECRET, REF), `plain.${SECRET}`)
    assert.equal(sealer.unseal(`plain.${SECRET}`, REF), SECRET)
  })

  test("if there is a key, it's used even if plain text is allowed", () => {
    const sealer = createSecretSealer({ secretKeys: [KEY], allowPlaintextSecrets: true })
    const sealed = sealer.seal(SECRET, REF)
    assert.ok(sealed.startsWith('v1.'))
    assert.equal(createSecretSealer({ secretKeys: [KEY] }).unseal(sealed, REF), SECRET)
  })

  test('a secret that was stored as plain text can be read', () => {
    assert.equal(createSecretSealer({}).unseal(`plain.${SECRET}`, REF), SECRET)
  })
})

describe('stored as plain text although there are keys', () => {
  const STORED = { headerNames: ['X'], sealedHeaders: '{"X":"not-random"}' }
  const PLAIN = { ...STORED, sealedHeaders: `plain.${STORED.sealedHeaders}` }

  test('a secret and headers are rejected, because any program that can write the row could have written them', () => {
    for (const allowPlaintextSecrets of [undefined, false]) {
      const sealer = createSecretSealer({ secretKeys: [KEY], allowPlaintextSecrets })
      const about =
        /^Cannot open the (signing secret|headers) of endpoint we_1 because its stored form is not sealed although option 'secretKeys' is set: seal it by secrets\.reseal\(\), and set 'allowPlaintextSecrets' until then$/
      assertUnavailable(() => sealer.unseal(`plain.${SECRET}`, REF), about)
      assertUnavailable(() => sealer.unsealHeaders(PLAIN, REF), about)
    }
  })

  test('can be read if plain text is allowed, and each such endpoint is reported once', () => {
    const reported: unknown[] = []
    const options = { secretKeys: [KEY], allowPlaintextSecrets: true }
    const sealer = createSecretSealer(options, (ref) => reported.push(ref))
    const other = { organizationId: 'org_2', endpointId: 'we_1' }
    for (let time = 0; time < 3; time++) {
      assert.equal(sealer.unseal(`plain.${SECRET}`, REF), SECRET)
      assert.deepEqual(sealer.unsealHeaders(PLAIN, REF), { X: 'not-random' })
      assert.equal(sealer.unseal(`plain.${SECRET}`, { ...other, extra: SECRET } as typeof other), SECRET)
    }
    assert.equal(sealer.unseal(sealer.seal(SECRET, REF), REF), SECRET)
    assert.deepEqual(reported, [REF, other])
  })

  test('without keys nothing is reported', () => {
    const sealer = createSecretSealer({ allowPlaintextSecrets: true }, () => assert.fail('reported'))
    assert.equal(sealer.unseal(`plain.${SECRET}`, REF), SECRET)
  })
})
